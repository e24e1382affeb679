"""The search space of a program in C++."""

from collections.abc import Iterator

from candidates.task import KernelTask
from compiler_agent.agents.search.algebra.variants import AS_WRITTEN
from compiler_agent.agents.search.emit_prepare import format_of, has_bfloat16_pairs, has_contiguous_depth
from compiler_agent.agents.search.program import ContractionStage, MapStage, Program
from compiler_agent.agents.search.schedule import Schedule
from compiler_agent.agents.search.space import Choice, Space, values_of

ACCUMULATOR_REGISTERS = 24
"""Of the 32 vector registers of AVX-512, what a register tile may hold in sums; more would spill."""
LEAST_STREAM_BYTES = min(
    value for value in values_of(Schedule, "stream_from_bytes") if isinstance(value, int) and value
)

_FIRST_VARIANTS: tuple[dict[str, Choice], ...] = (
    {},
    {"unroll": 4, "stream_from_bytes": 4_194_304, "row_tile": 8, "column_tile": 3, "prefetch_bytes": 16_384},
    {"reuse_from_cost": 1, "stream_from_bytes": 25_165_824, "row_tile": 6, "column_tile": 4, "prefetch_bytes": 4096},
    {"unroll": 1, "reuse_from_cost": 20, "weights": "rows", "row_tile": 4, "column_tile": 4},
)


def cpp_space(program: Program) -> Space[Schedule]:
    return Space(schedule_type=Schedule, choices=_choices(program), variants=_FIRST_VARIANTS, is_legal=_is_legal)


def _choices(program: Program) -> dict[str, tuple[Choice, ...]]:
    fields = ["vector_width"]
    contractions = [stage for stage in program.stages if isinstance(stage, ContractionStage)]
    if any(isinstance(stage, MapStage) for stage in program.stages):
        fields += ["unroll", "reuse_from_cost"]
        if _most_written_bytes(program.task) >= LEAST_STREAM_BYTES:
            fields += ["stream_from_bytes", "prefetch_bytes"]
    if contractions:
        fields += ["weights", "row_tile", "column_tile", "depth_unroll", "prefetch_bytes"]
    if program.task.threads > 1:
        fields.append("parallel_from_operations")
    values = {field: values_of(Schedule, field) for field in fields}
    if contractions:
        values["weights"] = tuple(_weight_layouts(program, contractions))
        values["prefetch_bytes"] = values["prefetch_bytes"][::-1]  # weights come from memory
    if program.others:
        values["algebra"] = (AS_WRITTEN, *program.others)
    return values


def _most_written_bytes(task: KernelTask) -> int:
    return max(sum(output.size_bytes(workload.axes) for output in task.outputs) for workload in task.workloads)


def _weight_layouts(program: Program, contractions: list[ContractionStage]) -> Iterator[str]:
    if any(format_of(stage, program) is not None for stage in contractions):
        yield "packed"
    if all(has_bfloat16_pairs(stage) for stage in contractions):
        yield "pairs"
    yield "panels"
    if all(has_contiguous_depth(stage) for stage in contractions):
        yield "rows"


def _is_legal(schedule: Schedule) -> bool:
    if schedule.row_tile * schedule.column_tile > ACCUMULATOR_REGISTERS:
        return False
    return schedule.weights in ("panels", "pairs") or schedule.depth_unroll == Schedule().depth_unroll
