"""Emission of a contraction stage: register tiles over output features and rows, then its elementwise work."""

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.weight_formats import BLOCK
from compiler_agent.agents.search.emit_call import unpacked
from compiler_agent.agents.search.emit_expressions import Scope
from compiler_agent.agents.search.emit_prepare import (
    FORMAT_TYPES,
    kept_format,
    kept_type,
    packed_bytes,
    panel_width,
    weights_of,
)
from compiler_agent.agents.search.expressions import Load
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import CONTRACTED, FLAT_COLUMN, FLAT_ROW, ContractionStage, Program
from compiler_agent.agents.search.schedule import Schedule


def emit_contraction_stage(
    name: str,
    stage: ContractionStage,
    program: Program,
    schedule: Schedule,
    packed_before: list[ContractionStage],
    *,
    scratch_slot: int,
) -> tuple[str, str]:
    """The stage's function and the statement that calls it."""
    (store,) = stage.stores
    left, right = stage.contract.left, weights_of(stage)
    assert isinstance(left, Load)
    row_lines: list[str] = []
    scope = Scope(FLAT_COLUMN, row_lines, names={stage.contract: "sum"})
    scope.store(store)
    finish = [
        "auto finish = [&](int64_t m, int64_t n, auto lanes, F sum) INLINE_BODY {",
        *[f"  {line}" for line in (*row_lines, *scope.lines)],
        "};",
    ]
    row_stride = integer(left.index[0].coeff(FLAT_ROW))
    rows_of_left = f"{left.buffer} + {integer(left.index[0].subs({FLAT_ROW: 0, CONTRACTED: 0}))}"
    declared = f"left_stride = {row_stride};", f"const float* left = {rows_of_left};"
    if schedule.weights == "pairs":
        pairs = stage.depth // 2
        room = f"scratch_of_thread<{scratch_slot}>(rows * {pairs})"
        pack = f"in_pairs({rows_of_left}, {row_stride}, rows, {stage.depth}, {room})"
        declared = f"left_stride = {pairs};", f"const uint32_t* left = {pack};"
    if schedule.weights == "rows":
        tiles = _dot_tiles(stage, right, schedule)
    else:
        offset = packed_bytes(packed_before, program, schedule)
        kept_as = kept_format(stage, program, schedule)
        if kept_as in FORMAT_TYPES:
            tiles = _block_tiles(stage, FORMAT_TYPES[kept_as], schedule, offset, scratch_slot)
        else:
            tiles = _panel_tiles(stage, kept_type(stage, kept_as), schedule, offset)
    lines = [f"const int64_t rows = {integer(stage.rows)}, {declared[0]}", declared[1], *finish, *tiles]
    columns = schedule.vector_width if schedule.weights == "rows" else panel_width(schedule)
    blocks = -(-stage.columns // columns)
    function = "\n".join(
        [
            f"// {name}: {store.buffer}[m, n] from the product over {stage.depth} of {left.buffer} and {right.buffer}",
            f"void {name}(const Call& call, int64_t begin, int64_t end) {{",
            *[f"  {line}" for line in (*unpacked(program, lines, {store.buffer}), *lines)],
            "}\n",
        ]
    )
    work = integer(sympy.expand(stage.rows * stage.columns * stage.depth))
    call = (
        f"share_out({blocks}, 1, {work} > {schedule.parallel_from_operations}, "
        f"[&](int64_t begin, int64_t end) {{ {name}(call, begin, end); }});"
    )
    return function, call


def _panel_tiles(stage: ContractionStage, kind: str, schedule: Schedule, offset: int) -> list[str]:
    width, tile = panel_width(schedule), schedule.column_tile
    function, steps = "panel_tile", stage.depth
    if schedule.weights == "pairs":
        kind, function, steps = "uint32_t", "pair_tile", stage.depth // 2
    arguments = f"R, {tile}, {schedule.depth_unroll}, {schedule.prefetch_bytes}"
    return [
        f"const {kind}* packed = reinterpret_cast<const {kind}*>(static_cast<const char*>(prepared) + {offset});",
        *_over_blocks(schedule, "panel"),
        f"      const {kind}* weights = packed + panel * {steps * width};",
        f"      F sum[R][{tile}];",
        f"      {function}<{arguments}>(lines, weights, {steps}, sum);",
        *_finished_panel(stage, schedule),
    ]


def _block_tiles(stage: ContractionStage, kind: str, schedule: Schedule, offset: int, scratch_slot: int) -> list[str]:
    tile, depth = schedule.column_tile, stage.depth
    blocks = depth // BLOCK
    arguments = f"{kind}, R, {tile}, {schedule.prefetch_bytes}"
    return [
        f"const char* packed = static_cast<const char*>(prepared) + {offset};",
        f"float* block_sums = scratch_of_thread<{scratch_slot}>(rows * {blocks});",
        f"sum_blocks(left, left_stride, rows, {depth}, block_sums);",
        *_over_blocks(schedule, "panel"),
        f"      const char* weights = packed + panel * {blocks * panel_width(schedule)} * {kind}::BYTES;",
        "      const float* line_sums[R];",
        f"      point_at_rows(block_sums + top * {blocks}, {blocks}, height, line_sums);",
        f"      F sum[R][{tile}];",
        f"      block_tile<{arguments}>(lines, line_sums, weights, {depth}, sum);",
        *_finished_panel(stage, schedule),
    ]


def _finished_panel(stage: ContractionStage, schedule: Schedule) -> list[str]:
    finish = [f"if (n + W <= {stage.columns}) finish(top + r, n, Full{{}}, sum[r][p]);"]
    if stage.columns % schedule.vector_width:
        finish.append(f"else if (n < {stage.columns}) finish(top + r, n, Tail{{int({stage.columns} - n)}}, sum[r][p]);")
    return [
        "      for (int64_t r = 0; r < height; ++r)",
        f"        for (int p = 0; p < {schedule.column_tile}; ++p) {{",
        f"          const int64_t n = panel * {panel_width(schedule)} + p * W;",
        *[f"          {line}" for line in finish],
        "        }",
        "    });",
        "  }",
        "}",
    ]


def _dot_tiles(stage: ContractionStage, right: Load, schedule: Schedule) -> list[str]:
    tile = schedule.column_tile
    address = right.index[0]
    stride, start = integer(address.coeff(FLAT_COLUMN)), integer(address.subs({FLAT_COLUMN: 0, CONTRACTED: 0}))
    rest = "for (; c < width; ++c) tile(c, Step<1>{});" if stage.columns % tile else ""
    return [
        f"const auto* weights = {right.buffer} + {start};",
        *_over_blocks(schedule, "group"),
        f"      const int64_t n = group * W, width = n + W <= {stage.columns} ? W : {stage.columns} - n;",
        "      float sums[R][W] = {};",
        "      auto tile = [&](int64_t c, auto c_count) INLINE_BODY {",
        "        constexpr int C = decltype(c_count)::value;",
        "        float out[R][C];",
        f"        dot_tile<R, C, {schedule.prefetch_bytes}>("
        f"lines, weights + (n + c) * {stride}, {stride}, {stage.depth}, out);",
        "        for (int r = 0; r < R; ++r)",
        "          for (int i = 0; i < C; ++i) sums[r][c + i] = out[r][i];",
        "      };",
        "      int64_t c = 0;",
        f"      for (; c + {tile} <= width; c += {tile}) tile(c, Step<{tile}>{{}});",
        *([f"      {rest}"] if rest else []),
        "      for (int64_t r = 0; r < height; ++r) {",
        "        if (width == W) finish(top + r, n, Full{}, load(sums[r], Full{}));",
        "        else finish(top + r, n, Tail{int(width)}, load(sums[r], Full{}));",
        "      }",
        "    });",
        "  }",
        "}",
    ]


def _over_blocks(schedule: Schedule, columns: str) -> list[str]:
    """The loops over column blocks and row blocks, down to a tile of R rows; a block's columns stay in cache."""
    tile = schedule.row_tile
    return [
        f"const int64_t blocks = (rows + {tile - 1}) / {tile};",
        f"for (int64_t {columns} = begin; {columns} < end; ++{columns}) {{",
        "  for (int64_t block = 0; block < blocks; ++block) {",
        "    // Blocks of nearly equal height: a last block of one row would waste a read of the weights.",
        "    const int64_t top = rows * block / blocks, height = rows * (block + 1) / blocks - top;",
        f"    with_rows<{tile}>(height, [&](auto r_count) INLINE_BODY {{",
        "      constexpr int R = decltype(r_count)::value;",
        "      decltype(left) lines[R];",
        "      point_at_rows(left + top * left_stride, left_stride, height, lines);",
    ]
