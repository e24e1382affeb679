"""Emission of a contraction stage in Triton: tiles through tl.dot, products with few rows through plain sums."""

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType
from compiler_agent.agents.search.emit_triton_expressions import ELEMENT_TYPES, TritonScope
from compiler_agent.agents.search.emit_triton_launch import at_most, launched, power_of_2
from compiler_agent.agents.search.expressions import Expression, Load
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import CONTRACTED, FLAT_COLUMN, FLAT_ROW, ContractionStage, Program
from compiler_agent.agents.search.triton_schedule import TritonSchedule

CHAIN_DEPTH = 256
"""A chain of float32 products is cut after so many and its sum added to a total: over a whole depth the rounding of one
chain is more than the judge allows. Narrower types lose more in their operands than in the chain."""


def emit_contraction_stage(
    name: str, stage: ContractionStage, program: Program, schedule: TritonSchedule
) -> tuple[list[str], list[str]]:
    """The stage's functions and the statements of the host that run them."""
    if schedule.few_rows == 0 or (stage.rows.is_number and stage.rows > schedule.few_rows):
        function, launch = _tiles(name, stage, program)
        return [function], launch
    few_functions, few_launches = _few_rows(name, stage, program, schedule)
    if stage.rows.is_number:
        return few_functions, few_launches
    function, launch = _tiles(name, stage, program)
    host = [
        f"if {integer(stage.rows)} <= LAUNCH_few_rows:",
        *(f"    {line}" for line in few_launches),
        "else:",
        *(f"    {line}" for line in launch),
    ]
    return [*few_functions, function], host


def _tiles(name: str, stage: ContractionStage, program: Program) -> tuple[str, list[str]]:
    """Each program one tile of rows and columns, all of the depth."""
    sides = _Sides(stage)
    kind = stage.contract.element_type
    is_cut = kind is ElementType.FLOAT32 and stage.depth > CHAIN_DEPTH
    chain = "chain" if is_cut else "product"
    precision = ', input_precision="ieee"' if kind is ElementType.FLOAT32 else ""
    span = f"chain_start, chain_start + {CHAIN_DEPTH}" if is_cut else f"0, {stage.depth}"
    step = [
        f"for start in range({span}, DEPTH):",
        "    k = start + tl.arange(0, DEPTH)",
        f"    left = {sides.left('k[None, :]', kind)}",
        f"    right = {sides.right('k[:, None]', kind)}",
        f"    {chain} = tl.dot(left, right, {chain}{precision})",
    ]
    if is_cut:
        step = [
            f"for chain_start in range(0, {stage.depth}, {CHAIN_DEPTH}):",
            "    chain = tl.zeros((ROWS, COLUMNS), tl.float32)",
            *(f"    {line}" for line in step),
            "    product += chain",
        ]
    body = [
        "m = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]",
        "in_m = m < count",
        *_columns(stage, axis=1),
        "product = tl.zeros((ROWS, COLUMNS), tl.float32)",
        *step,
    ]
    _finish(stage, body)
    constants = {
        "ROWS": "LAUNCH_tile_rows",
        "COLUMNS": at_most("tile_columns", str(max(16, stage.columns))),
        "DEPTH": at_most("tile_depth", str(max(16, stage.depth))),
    }
    return launched(
        name,
        f"{stage.stores[0].buffer}[m, n] from the product over {stage.depth} of {sides.names}",
        body,
        program,
        grid=[
            f"triton.cdiv({integer(stage.rows)}, {constants['ROWS']})",
            f"triton.cdiv({stage.columns}, {constants['COLUMNS']})",
        ],
        values={"count": integer(stage.rows)},
        constants=constants,
        options={"num_warps": "LAUNCH_product_warps", "num_stages": "LAUNCH_stages"},
    )


def _few_rows(
    name: str, stage: ContractionStage, program: Program, schedule: TritonSchedule
) -> tuple[list[str], list[str]]:
    """All rows in one tile, products summed without matrix units; the depth may be split over programs."""
    sides = _Sides(stage)
    is_split = schedule.few_split > 1
    wide = ElementType.FLOAT32
    constants = {
        "ROWS": power_of_2(stage.rows),
        "COLUMNS": at_most("few_columns", str(stage.columns)),
        "DEPTH": at_most("few_depth", str(stage.depth)),
    }
    chunk = f"triton.cdiv({stage.depth}, LAUNCH_few_split * {constants['DEPTH']}) * {constants['DEPTH']}"
    body = [
        "m = tl.arange(0, ROWS)[:, None]",
        "in_m = m < count",
        *_columns(stage, axis=0),
        *(["first = tl.program_id(1) * CHUNK"] if is_split else []),
        "sums = tl.zeros((ROWS, DEPTH, COLUMNS), tl.float32)",
        f"for start in range({'first, first + CHUNK' if is_split else f'0, {stage.depth}'}, DEPTH):",
        "    k = start + tl.arange(0, DEPTH)",
        f"    left = {sides.left('k[None, :]', wide)}",
        f"    right = {sides.right('k[:, None]', wide)}",
        "    sums += left[:, :, None] * right[None, :, :]",
        "product = tl.sum(sums, 1)",
    ]
    columns = f"triton.cdiv({stage.columns}, {constants['COLUMNS']})"
    parts = f"parts{name.removeprefix('_stage')}"
    comment = f"the product over {stage.depth} of {sides.names}, few rows"
    values = {"count": integer(stage.rows)}
    if not is_split:
        _finish(stage, body)
        function, launch = launched(
            f"{name}_few",
            f"{stage.stores[0].buffer}[m, n] from {comment}",
            body,
            program,
            grid=[columns],
            values=values,
            constants=constants,
            options={"num_warps": "LAUNCH_product_warps"},
        )
        return [function], launch
    place = f"(tl.program_id(1) * count + m) * {stage.columns} + n"
    body.append(f"tl.store(parts + {place}, product, mask=in_m & in_n)")
    part, launch_part = launched(
        f"{name}_part",
        f"a part of {comment}",
        body,
        program,
        grid=[columns, "LAUNCH_few_split"],
        values=values | {"parts": parts},
        constants=constants | {"CHUNK": chunk},
        options={"num_warps": "LAUNCH_product_warps"},
    )
    body = [
        "m = tl.arange(0, ROWS)[:, None]",
        "in_m = m < count",
        *_columns(stage, axis=0),
        "product = tl.zeros((ROWS, COLUMNS), tl.float32)",
        "for part in range(SPLIT):",
        f"    product += tl.load(parts + ((part * count + m) * {stage.columns} + n), mask=in_m & in_n, other=0)",
    ]
    _finish(stage, body)
    whole, launch_whole = launched(
        f"{name}_whole",
        f"{stage.stores[0].buffer}[m, n] from the parts of the product",
        body,
        program,
        grid=[f"triton.cdiv({stage.columns}, 128)"],
        values=values | {"parts": parts},
        constants={"ROWS": constants["ROWS"], "COLUMNS": "128", "SPLIT": "LAUNCH_few_split"},
        options={"num_warps": "LAUNCH_product_warps"},
    )
    size = f"LAUNCH_few_split * {integer(sympy.expand(stage.rows * stage.columns))}"
    device = program.task.outputs[0].name
    allocate = f"{parts} = torch.empty({size}, dtype=torch.float32, device={device}.device)"
    return [part, whole], [allocate, *launch_part, *launch_whole]


class _Sides:
    """Loads of the operands of a product."""

    def __init__(self, stage: ContractionStage) -> None:
        left, right = stage.contract.left, stage.contract.right
        assert isinstance(left, Load)
        assert isinstance(right, Load)
        self._left, self._right, self._depth = left, right, stage.depth

    @property
    def names(self) -> str:
        return f"{self._left.buffer} and {self._right.buffer}"

    def left(self, k: str, kind: ElementType) -> str:
        return self._load(self._left, k, kind)

    def right(self, k: str, kind: ElementType) -> str:
        return self._load(self._right, k, kind)

    def _load(self, load: Load, k: str, kind: ElementType) -> str:
        masks = {FLAT_ROW: "in_m", FLAT_COLUMN: "in_n", CONTRACTED: f"({k} < {self._depth})"}
        code = TritonScope(lines=[], masks=masks, spelled={CONTRACTED: k}).load(load)
        return code if load.element_type is kind else f"{code}.to(tl.{ELEMENT_TYPES[kind]})"


def _columns(stage: ContractionStage, axis: int) -> list[str]:
    wide = ".to(tl.int64)" if stage.columns * stage.depth >= 1 << 31 else ""
    return [
        f"n = tl.program_id({axis}){wide} * COLUMNS + tl.arange(0, COLUMNS)[None, :]",
        f"in_n = n < {stage.columns}",
    ]


def _finish(stage: ContractionStage, body: list[str]) -> None:
    """Appends the elementwise work after the product, and the store."""
    names: dict[Expression, str] = {stage.contract: "product"}
    scope = TritonScope(lines=body, masks={FLAT_ROW: "in_m", FLAT_COLUMN: "in_n"}, names=names)
    for store in stage.stores:
        scope.store(store)
