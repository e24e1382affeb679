"""The search space of a program in Triton: what fits into registers and shared memory and differs for it."""

import sympy  # type: ignore[import-untyped]  # ships no types

from compiler_agent.agents.search.algebra.variants import AS_WRITTEN
from compiler_agent.agents.search.emit_triton_launch import power_of_2
from compiler_agent.agents.search.expressions import Size
from compiler_agent.agents.search.index_maps import axis_symbol
from compiler_agent.agents.search.passes import Pass, passes_of
from compiler_agent.agents.search.program import ContractionStage, MapStage, Program
from compiler_agent.agents.search.space import Choice, Space, values_of
from compiler_agent.agents.search.triton_schedule import FEW_FIELDS, TILE_FIELDS, TritonSchedule

THREADS_PER_WARP = 32
"""On NVIDIA; 64 on AMD, where what is legal here has twice the room."""
VALUES_PER_THREAD = 64
"""Of one tile of a map, of which several are alive at once, in 255 registers of 32 bits. A thread adds its share of a
row in one chain, so that this also bounds the rounding of a sum."""
SUMS_PER_THREAD = 128
"""Of a product's tile: its accumulators take half of the registers at most."""
SHARED_BYTES = {"sm": 163 * 1024, "gfx": 64 * 1024}
"""Of one block: CUDA C++ Programming Guide, table of compute capability 8.0, the least of 8.0, 9.0 and 10.0; AMD
Instinct MI300 ISA, local data share of a work group."""
LONGEST_WHOLE_ROW = 16_384

_FIRST_VARIANTS: tuple[dict[str, Choice], ...] = (
    {},
    {
        "warps": 8,
        "block": 2048,
        "tile_rows": 128,
        "product_warps": 8,
        "few_rows": 1,
        "few_columns": 8,
        "few_depth": 256,
    },
    {"rows": 4, "warps": 2, "block": 512, "tile_rows": 16, "tile_columns": 32, "tile_depth": 64, "few_rows": 0},
    {
        "sweep": "blocks",
        "warps": 8,
        "tile_rows": 32,
        "tile_depth": 64,
        "few_rows": 16,
        "few_columns": 4,
        "few_split": 4,
    },
)


def triton_space(program: Program) -> Space[TritonSchedule]:
    maps = [stage for stage in program.stages if isinstance(stage, MapStage)]
    products = [stage for stage in program.stages if isinstance(stage, ContractionStage)]
    rows = [_largest(program, high - low) for stage in maps for low, high in _ranges(stage)]
    longest = int(power_of_2(sympy.Integer(max(rows, default=1))))
    is_all_reduced = all(_passes(stage) for stage in maps)
    bytes_per_value = max((_operand_bytes(stage) for stage in products), default=0)
    has_amd = any(name.startswith("gfx") for name in program.task.architectures or ("gfx",))
    shared_bytes = SHARED_BYTES["gfx" if has_amd else "sm"]
    default = TritonSchedule()

    def is_legal(schedule: TritonSchedule) -> bool:
        lanes, product_lanes = schedule.warps * THREADS_PER_WARP, schedule.product_warps * THREADS_PER_WARP
        width = longest if schedule.sweep == "whole" else min(schedule.block, longest)
        if maps and max(schedule.rows * width if rows else 0, schedule.block) > VALUES_PER_THREAD * lanes:
            return False
        if maps and is_all_reduced and schedule.sweep == "whole" and schedule.block != default.block:
            return False
        if not products:
            return True
        step = (schedule.tile_rows + schedule.tile_columns) * schedule.tile_depth * bytes_per_value
        if schedule.tile_rows * schedule.tile_columns > SUMS_PER_THREAD * product_lanes or (
            schedule.stages * step > shared_bytes
        ):
            return False
        if schedule.few_rows == 0:
            return all(getattr(schedule, field) == getattr(default, field) for field in FEW_FIELDS[1:])
        return schedule.few_rows * schedule.few_columns * schedule.few_depth <= SUMS_PER_THREAD * product_lanes

    return Space(
        schedule_type=TritonSchedule,
        choices=_choices(program, maps, products, max(rows, default=0)),
        variants=_FIRST_VARIANTS,
        is_legal=is_legal,
    )


def _choices(
    program: Program, maps: list[MapStage], products: list[ContractionStage], longest_row: int
) -> dict[str, tuple[Choice, ...]]:
    fields: tuple[str, ...] = ()
    if longest_row:
        fields += ("sweep", "rows")
    if maps:
        fields += ("block", "warps")
    if products:
        fields += TILE_FIELDS + FEW_FIELDS
    values = {field: values_of(TritonSchedule, field) for field in fields}
    if program.others:
        values["algebra"] = (AS_WRITTEN, *program.others)
    if longest_row > LONGEST_WHOLE_ROW:
        values["sweep"] = ("blocks",)
    if products:
        fewest = min(_smallest(program, stage.rows) for stage in products)
        values["few_rows"] = tuple(count for count in values["few_rows"] if count == 0 or int(count) >= fewest)
    return values


def _passes(stage: MapStage) -> list[Pass]:
    return passes_of([store for piece in stage.pieces for store in piece.stores])


def _ranges(stage: MapStage) -> list[tuple[Size, Size]]:
    """Of columns that a program with reductions takes: what is reduced, and what is then written."""
    passes = _passes(stage)
    written = [(piece.low, piece.high) for piece in stage.pieces] if passes and stage.has_columns else []
    return [*((one.low, one.high) for one in passes), *written]


def _operand_bytes(stage: ContractionStage) -> int:
    return stage.contract.element_type.size_bytes


def _largest(program: Program, size: Size) -> int:
    return max(_in_workloads(program, size))


def _smallest(program: Program, size: Size) -> int:
    return min(_in_workloads(program, size))


def _in_workloads(program: Program, size: Size) -> list[int]:
    return [
        int(size.subs({axis_symbol(axis): length for axis, length in workload.axes.items()}))
        for workload in program.task.public_workloads
    ]
