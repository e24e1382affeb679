"""The search space of a program: which schedules are legal and differ for it, and which of them to try first."""

import itertools
from collections.abc import Iterator
from typing import Any, get_args

from compiler_agent.agents.search.expressions import Load
from compiler_agent.agents.search.program import CONTRACTED, ContractionStage, MapStage, Program
from compiler_agent.agents.search.schedule import Schedule

Choice = int | str

ACCUMULATOR_REGISTERS = 24
"""Of the 32 vector registers of AVX-512, what a register tile may hold in sums; more would spill."""

_FIRST_VARIANTS: tuple[dict[str, Choice], ...] = (
    {},
    {"unroll": 4, "row_tile": 6, "column_tile": 4},
    {"reuse_from_cost": 20, "row_tile": 4, "column_tile": 4, "prefetch_bytes": 1024},
    {"unroll": 1, "weights": "rows", "row_tile": 4, "column_tile": 4},
)


def choices(program: Program) -> dict[str, tuple[Choice, ...]]:
    """Per field of the schedule that matters to this program, its values, the default first."""
    fields = ["vector_width"]
    contractions = [stage for stage in program.stages if isinstance(stage, ContractionStage)]
    if any(isinstance(stage, MapStage) for stage in program.stages):
        fields += ["unroll", "reuse_from_cost"]
    if contractions:
        fields += ["weights", "row_tile", "column_tile", "depth_unroll", "prefetch_bytes"]
    if program.task.threads > 1:
        fields.append("parallel_from_operations")
    values = {field: _values(field) for field in fields}
    if any(not _has_contiguous_depth(stage) for stage in contractions):
        values["weights"] = ("panels",)
    return values


def legal_schedules(program: Program) -> Iterator[Schedule]:
    """Every legal schedule once."""
    values = choices(program)
    for combination in itertools.product(*values.values()):
        schedule = Schedule(**dict(zip(values, combination, strict=True)))  # type: ignore[arg-type]
        if is_legal(schedule):
            yield schedule


def is_legal(schedule: Schedule) -> bool:
    """False also for a second spelling of another schedule."""
    if schedule.row_tile * schedule.column_tile > ACCUMULATOR_REGISTERS:
        return False
    return schedule.weights == "panels" or schedule.depth_unroll == Schedule().depth_unroll


def first_schedules(program: Program) -> tuple[Schedule, ...]:
    """The default and a few that differ from it in everything that usually decides."""
    values = choices(program)
    schedules = [
        Schedule(**{field: value for field, value in variant.items() if value in values.get(field, ())})  # type: ignore[arg-type]
        for variant in _FIRST_VARIANTS
    ]
    return tuple(dict.fromkeys(schedule for schedule in schedules if is_legal(schedule)))


def _values(field: str) -> tuple[Choice, ...]:
    default: Any = getattr(Schedule(), field)
    values: tuple[Choice, ...] = get_args(Schedule.model_fields[field].annotation)
    return (default, *(value for value in values if value != default))


def _has_contiguous_depth(stage: ContractionStage) -> bool:
    right = stage.contract.right
    return isinstance(right, Load) and bool(right.index[0].coeff(CONTRACTED) == 1)
