"""Emission of a contraction stage: register tiles over output features and rows, then its elementwise work."""

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import InputRole
from compiler_agent.agents.search.emit_call import unpacked
from compiler_agent.agents.search.emit_expressions import STORAGE_TYPES, Scope
from compiler_agent.agents.search.expressions import Load
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import CONTRACTED, FLAT_COLUMN, FLAT_ROW, ContractionStage, Program
from compiler_agent.agents.search.schedule import Schedule


def emit_contraction_stage(
    name: str, stage: ContractionStage, program: Program, schedule: Schedule, packed_before: list[ContractionStage]
) -> tuple[str, str]:
    """The stage's function and the statement that calls it."""
    (store,) = stage.stores
    left, right = _load(stage.contract.left), _load(stage.contract.right)
    row_lines: list[str] = []
    scope = Scope(FLAT_COLUMN, row_lines, names={stage.contract: "sum"})
    scope.store(store)
    finish = [
        "auto finish = [&](int64_t m, int64_t n, auto lanes, F sum) INLINE_BODY {",
        *[f"  {line}" for line in (*row_lines, *scope.lines)],
        "};",
    ]
    row_stride = integer(left.index[0].coeff(FLAT_ROW))
    left_start = integer(left.index[0].subs({FLAT_ROW: 0, CONTRACTED: 0}))
    tiles = (
        _panel_tiles(stage, right, schedule, packed_before)
        if schedule.weights == "panels"
        else _dot_tiles(stage, right, schedule)
    )
    lines = [
        f"const int64_t rows = {integer(stage.rows)}, left_stride = {row_stride};",
        f"const float* left = {left.buffer} + {left_start};",
        *finish,
        *tiles,
    ]
    columns = panel_width(schedule) if schedule.weights == "panels" else schedule.vector_width
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


def panel_width(schedule: Schedule) -> int:
    return schedule.column_tile * schedule.vector_width


def _panel_tiles(
    stage: ContractionStage, right: Load, schedule: Schedule, packed_before: list[ContractionStage]
) -> list[str]:
    width, tile = panel_width(schedule), schedule.column_tile
    kind = STORAGE_TYPES[right.element_type]
    offset = packed_bytes(packed_before, schedule)
    finish = [f"if (n + W <= {stage.columns}) finish(top + r, n, Full{{}}, sum[r][p]);"]
    if stage.columns % schedule.vector_width:
        finish.append(f"else if (n < {stage.columns}) finish(top + r, n, Tail{{int({stage.columns} - n)}}, sum[r][p]);")
    tile_arguments = f"R, {tile}, {schedule.depth_unroll}, {schedule.prefetch_bytes}"
    return [
        f"const {kind}* packed = reinterpret_cast<const {kind}*>(static_cast<const char*>(prepared) + {offset});",
        *_over_blocks(schedule, "panel"),
        f"      const {kind}* weights = packed + panel * {stage.depth * width};",
        f"      F sum[R][{tile}];",
        f"      panel_tile<{tile_arguments}>(lines, weights, {stage.depth}, sum);",
        "      for (int64_t r = 0; r < height; ++r)",
        f"        for (int p = 0; p < {tile}; ++p) {{",
        f"          const int64_t n = panel * {width} + p * W;",
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
        "      const float* lines[R];",
        "      point_at_rows(left + top * left_stride, left_stride, height, lines);",
    ]


def packed_bytes(stages: list[ContractionStage], schedule: Schedule) -> int:
    """Bytes of the panels of these stages, each starting at a multiple of 64."""
    total = 0
    for stage in stages:
        panels = -(-stage.columns // panel_width(schedule))
        size = panels * panel_width(schedule) * stage.depth * _load(stage.contract.right).element_type.size_bytes
        total += -(-size // 64) * 64
    return total


def emit_prepare(stages: list[ContractionStage], program: Program, schedule: Schedule, name: str) -> str:
    """`<name>_bytes` and `<name>`: weights repacked as [panel][depth][lanes], the last panel filled with zeros."""
    parameters = program.task.inputs_of(InputRole.PARAMETER)
    signature = ", ".join(f"const {STORAGE_TYPES[spec.element_type]}* {spec.name}" for spec in parameters)
    width = panel_width(schedule)
    lines = [
        f'extern "C" int64_t {name}_bytes() {{ return {packed_bytes(stages, schedule)}; }}',
        f'extern "C" void {name}({signature}, void* prepared) {{',
    ]
    for place, stage in enumerate(stages):
        right = _load(stage.contract.right)
        kind = STORAGE_TYPES[right.element_type]
        address = integer(right.index[0].subs({FLAT_COLUMN: sympy.Symbol("n"), CONTRACTED: sympy.Symbol("k")}))
        offset = packed_bytes(stages[:place], schedule)
        lines += [
            f"  {kind}* packed{place} = reinterpret_cast<{kind}*>(static_cast<char*>(prepared) + {offset});",
            f"  for (int64_t panel = 0; panel < {-(-stage.columns // width)}; ++panel)",
            f"    for (int64_t k = 0; k < {stage.depth}; ++k)",
            f"      for (int64_t lane = 0; lane < {width}; ++lane) {{",
            f"        const int64_t n = panel * {width} + lane;",
            f"        *packed{place}++ = n < {stage.columns} ? {right.buffer}[{address}] : {kind}(0);",
            "      }",
        ]
    return "\n".join([*lines, "}\n"])


def _load(side: object) -> Load:
    assert isinstance(side, Load)
    return side
