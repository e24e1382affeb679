"""The search space of a program in C++."""

from compiler_agent.agents.search.algebra.variants import AS_WRITTEN
from compiler_agent.agents.search.expressions import Load
from compiler_agent.agents.search.program import CONTRACTED, ContractionStage, MapStage, Program
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.space import Choice, Space, values_of

ACCUMULATOR_REGISTERS = 24
"""Of the 32 vector registers of AVX-512, what a register tile may hold in sums; more would spill."""

_FIRST_VARIANTS: tuple[dict[str, Choice], ...] = (
    {},
    {"unroll": 4, "row_tile": 6, "column_tile": 4},
    {"reuse_from_cost": 20, "row_tile": 4, "column_tile": 4, "prefetch_bytes": 1024},
    {"unroll": 1, "weights": "rows", "row_tile": 4, "column_tile": 4},
)


def cpp_space(program: Program) -> Space[Schedule]:
    return Space(schedule_type=Schedule, choices=_choices(program), variants=_FIRST_VARIANTS, is_legal=_is_legal)


def _choices(program: Program) -> dict[str, tuple[Choice, ...]]:
    fields = ["vector_width"]
    contractions = [stage for stage in program.stages if isinstance(stage, ContractionStage)]
    if any(isinstance(stage, MapStage) for stage in program.stages):
        fields += ["unroll", "reuse_from_cost"]
    if contractions:
        fields += ["weights", "row_tile", "column_tile", "depth_unroll", "prefetch_bytes"]
    if program.task.threads > 1:
        fields.append("parallel_from_operations")
    values = {field: values_of(Schedule, field) for field in fields}
    if program.others:
        values["algebra"] = (AS_WRITTEN, *program.others)
    if any(not _has_contiguous_depth(stage) for stage in contractions):
        values["weights"] = ("panels",)
    return values


def _is_legal(schedule: Schedule) -> bool:
    if schedule.row_tile * schedule.column_tile > ACCUMULATOR_REGISTERS:
        return False
    return schedule.weights == "panels" or schedule.depth_unroll == Schedule().depth_unroll


def _has_contiguous_depth(stage: ContractionStage) -> bool:
    right = stage.contract.right
    return isinstance(right, Load) and bool(right.index[0].coeff(CONTRACTED) == 1)
