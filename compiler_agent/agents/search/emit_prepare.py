"""Emission of `prepare`: what is kept of the weights of contraction stages, and where it lies."""

from collections.abc import Sequence

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType, InputRole
from candidates.weight_formats import BLOCK, WeightFormat
from compiler_agent.agents.search.emit_expressions import STORAGE_TYPES
from compiler_agent.agents.search.expressions import Load
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import CONTRACTED, FLAT_COLUMN, ContractionStage, Program
from compiler_agent.agents.search.schedule import Schedule

FORMAT_TYPES = {WeightFormat.Q4_1: "Q4_1", WeightFormat.Q8_0: "Q8_0"}
"""Of formats in blocks, as the prelude calls them."""


def weights_of(stage: ContractionStage) -> Load:
    right = stage.contract.right
    assert isinstance(right, Load)
    return right


def has_contiguous_depth(stage: ContractionStage) -> bool:
    return bool(weights_of(stage).index[0].coeff(CONTRACTED) == 1)


def format_of(stage: ContractionStage, program: Program) -> WeightFormat | None:
    """What the weights of a stage may be kept as; None too where its depth does not walk along their blocks."""
    right = weights_of(stage)
    stored_as = next(spec.stored_as for spec in program.task.inputs if spec.name == right.buffer)
    if stored_as is None or not stored_as.is_exact:
        return stored_as
    steps = (stage.depth, right.index[0].coeff(FLAT_COLUMN), right.index[0].subs({FLAT_COLUMN: 0, CONTRACTED: 0}))
    is_whole = all(step.is_number and int(step) % BLOCK == 0 for step in map(sympy.Integer, steps))
    return stored_as if has_contiguous_depth(stage) and is_whole else None


def has_bfloat16_pairs(stage: ContractionStage) -> bool:
    """PyTorch multiplies it in bfloat16, and the depth is even."""
    kinds = {stage.contract.element_type, weights_of(stage).element_type}
    return kinds == {ElementType.BFLOAT16} and stage.depth % 2 == 0


def kept_format(stage: ContractionStage, program: Program, schedule: Schedule) -> WeightFormat | None:
    """What the schedule keeps them as; None: as they come."""
    return format_of(stage, program) if schedule.weights == "packed" else None


def panel_width(schedule: Schedule) -> int:
    return schedule.column_tile * schedule.vector_width


def kept_type(stage: ContractionStage, kept_as: WeightFormat | None) -> str:
    """C++ type of a weight in a panel that has no blocks."""
    return "uint16_t" if kept_as is WeightFormat.BFLOAT16 else STORAGE_TYPES[weights_of(stage).element_type]


def packed_bytes(stages: Sequence[ContractionStage], program: Program, schedule: Schedule) -> int:
    """Of these stages, each starting at a multiple of 64."""
    total = 0
    for stage in stages:
        kept_as = kept_format(stage, program, schedule)
        width = panel_width(schedule)
        count = -(-stage.columns // width) * width * stage.depth
        size = count * weights_of(stage).element_type.size_bytes if kept_as is None else kept_as.size_bytes(count)
        total += -(-size // 64) * 64
    return total


def emit_prepare(stages: Sequence[ContractionStage], program: Program, schedule: Schedule, name: str) -> str:
    """`<name>_bytes` and `<name>`: weights as [panel][depth][lanes], as [panel][depth / 2][lanes][2], or as
    [panel][block] of a format, the last panel filled with zeros."""
    parameters = program.task.inputs_of(InputRole.PARAMETER)
    signature = ", ".join(f"const {STORAGE_TYPES[spec.element_type]}* {spec.name}" for spec in parameters)
    lines = [
        f'extern "C" int64_t {name}_bytes() {{ return {packed_bytes(stages, program, schedule)}; }}',
        f'extern "C" void {name}({signature}, void* prepared) {{',
    ]
    for place, stage in enumerate(stages):
        to = f"static_cast<char*>(prepared) + {packed_bytes(stages[:place], program, schedule)}"
        kept_as = kept_format(stage, program, schedule)
        if kept_as in FORMAT_TYPES:
            lines.append(_packed_blocks(stage, FORMAT_TYPES[kept_as], schedule, to))
        else:
            lines += _panels(stage, place, kept_type(stage, kept_as), schedule, to)
    return "\n".join([*lines, "}\n"])


def _packed_blocks(stage: ContractionStage, kind: str, schedule: Schedule, to: str) -> str:
    right = weights_of(stage)
    stride = integer(right.index[0].coeff(FLAT_COLUMN))
    start = integer(right.index[0].subs({FLAT_COLUMN: 0, CONTRACTED: 0}))
    sizes = f"{stride}, {stage.columns}, {stage.depth}, {schedule.column_tile}"
    return f"  pack_blocks<{kind}>({right.buffer} + {start}, {sizes}, {to});"


def _panels(stage: ContractionStage, place: int, kind: str, schedule: Schedule, to: str) -> list[str]:
    right, width, together = weights_of(stage), panel_width(schedule), 2 if schedule.weights == "pairs" else 1
    address = integer(right.index[0].subs({FLAT_COLUMN: sympy.Symbol("n"), CONTRACTED: sympy.Symbol("k")}))
    weight = f"{right.buffer}[{address}]"
    is_rounded = kind != STORAGE_TYPES[right.element_type]
    return [
        f"  {kind}* packed{place} = reinterpret_cast<{kind}*>({to});",
        f"  for (int64_t panel = 0; panel < {-(-stage.columns // width)}; ++panel)",
        f"    for (int64_t step = 0; step < {stage.depth}; step += {together})",
        f"      for (int64_t lane = 0; lane < {width * together}; ++lane) {{",
        f"        const int64_t n = panel * {width} + lane / {together}, k = step + lane % {together};",
        f"        store_scalar(packed{place}++, n < {stage.columns} ? {weight} : 0.0f);"
        if is_rounded
        else f"        *packed{place}++ = n < {stage.columns} ? {weight} : {kind}(0);",
        "      }",
    ]
