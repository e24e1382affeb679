"""Emission of a contraction stage: register tiles over output features and rows, then its elementwise work."""

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType, InputRole
from compiler_agent.agents.search.emit_call import unpacked
from compiler_agent.agents.search.emit_expressions import STORAGE_TYPES, Scope
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
    rows_of_left = f"{left.buffer} + {integer(left.index[0].subs({FLAT_ROW: 0, CONTRACTED: 0}))}"
    declared = f"left_stride = {row_stride};", f"const float* left = {rows_of_left};"
    if schedule.weights == "pairs":
        pairs = stage.depth // 2
        room = f"scratch_of_thread<{scratch_slot}>(rows * {pairs})"
        pack = f"in_pairs({rows_of_left}, {row_stride}, rows, {stage.depth}, {room})"
        declared = f"left_stride = {pairs};", f"const uint32_t* left = {pack};"
    tiles = (
        _dot_tiles(stage, right, schedule)
        if schedule.weights == "rows"
        else _panel_tiles(stage, right, schedule, packed_before)
    )
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


def has_bfloat16_pairs(stage: ContractionStage) -> bool:
    """PyTorch multiplies it in bfloat16, and the depth is even."""
    kinds = {stage.contract.element_type, _load(stage.contract.right).element_type}
    return kinds == {ElementType.BFLOAT16} and stage.depth % 2 == 0


def panel_width(schedule: Schedule) -> int:
    return schedule.column_tile * schedule.vector_width


def _panel_tiles(
    stage: ContractionStage, right: Load, schedule: Schedule, packed_before: list[ContractionStage]
) -> list[str]:
    width, tile = panel_width(schedule), schedule.column_tile
    is_paired = schedule.weights == "pairs"
    kind = "uint32_t" if is_paired else STORAGE_TYPES[right.element_type]
    function, steps = ("pair_tile", stage.depth // 2) if is_paired else ("panel_tile", stage.depth)
    offset = packed_bytes(packed_before, schedule)
    finish = [f"if (n + W <= {stage.columns}) finish(top + r, n, Full{{}}, sum[r][p]);"]
    if stage.columns % schedule.vector_width:
        finish.append(f"else if (n < {stage.columns}) finish(top + r, n, Tail{{int({stage.columns} - n)}}, sum[r][p]);")
    tile_arguments = f"R, {tile}, {schedule.depth_unroll}, {schedule.prefetch_bytes}"
    return [
        f"const {kind}* packed = reinterpret_cast<const {kind}*>(static_cast<const char*>(prepared) + {offset});",
        *_over_blocks(schedule, "panel"),
        f"      const {kind}* weights = packed + panel * {steps * width};",
        f"      F sum[R][{tile}];",
        f"      {function}<{tile_arguments}>(lines, weights, {steps}, sum);",
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
        "      decltype(left) lines[R];",
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
    """`<name>_bytes` and `<name>`: weights repacked as [panel][depth][lanes], or [panel][depth / 2][lanes][2], the last
    panel filled with zeros."""
    parameters = program.task.inputs_of(InputRole.PARAMETER)
    signature = ", ".join(f"const {STORAGE_TYPES[spec.element_type]}* {spec.name}" for spec in parameters)
    width, together = panel_width(schedule), 2 if schedule.weights == "pairs" else 1
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
            f"    for (int64_t step = 0; step < {stage.depth}; step += {together})",
            f"      for (int64_t lane = 0; lane < {width * together}; ++lane) {{",
            f"        const int64_t n = panel * {width} + lane / {together}, k = step + lane % {together};",
            f"        *packed{place}++ = n < {stage.columns} ? {right.buffer}[{address}] : {kind}(0);",
            "      }",
        ]
    return "\n".join([*lines, "}\n"])


def _load(side: object) -> Load:
    assert isinstance(side, Load)
    return side
