"""Emission: a program under a schedule becomes one readable Triton source, a file of the `triton` language."""

from dataclasses import replace

from candidates.candidate import Candidate, LanguageName
from candidates.task import KernelTask
from compiler_agent.agents.search.emit_triton_contraction import emit_contraction_stage
from compiler_agent.agents.search.emit_triton_expressions import ELEMENT_TYPES, MAX_EXPONENT, has_power
from compiler_agent.agents.search.emit_triton_launch import members_of
from compiler_agent.agents.search.emit_triton_map import emit_map_stage
from compiler_agent.agents.search.expressions import Apply, Reduce, ReductionKind
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import ContractionStage, MapStage, NoProgram, Program
from compiler_agent.agents.search.staging import write_program
from compiler_agent.agents.search.triton_prelude import functions_for
from compiler_agent.agents.search.triton_schedule import FEW_FIELDS, MAP_FIELDS, TILE_FIELDS, TritonSchedule

ENTRY = "kernel"
PLAIN = TritonSchedule(sweep="blocks", few_rows=0)


def write_triton_program(task: KernelTask) -> Program | NoProgram:
    """The program of the task's graph as Triton can have it, or why there is none."""
    program = write_program(task, narrow_products=True)
    if isinstance(program, NoProgram):
        return program
    for part in program.expressions():
        if isinstance(part, Apply) and part.function == "pow" and not has_power(part):
            return NoProgram(f"op pow in Triton with an exponent that is no multiple of 1/2 up to {MAX_EXPONENT}")
    # A sum of exponentials that finds its maximum on the way is not written in Triton.
    others = {name: other for name, other in program.others.items() if not _has_online_sum(other)}
    return replace(program, others=others)


def _has_online_sum(program: Program) -> bool:
    return any(isinstance(part, Reduce) and part.kind is ReductionKind.SUM_EXP for part in program.expressions())


def emit_triton(program: Program, schedule: TritonSchedule) -> Candidate:
    """The candidate for `program` under `schedule`; its launch parameters are what the program uses of the schedule."""
    parameters = launch_parameters(program, schedule)
    program = program.under(schedule.algebra)
    functions: list[str] = []
    statements: list[str] = []
    for place, stage in enumerate(program.stages):
        if isinstance(stage, ContractionStage):
            products, launches = emit_contraction_stage(f"_stage{place}", stage, program, schedule)
            functions += products
        else:
            function, launches = emit_map_stage(f"_stage{place}", stage, program, schedule)
            functions.append(function)
        statements += launches
    head = [
        f"# {program.task.op}: {len(program.stages)} stage(s), written from the graph of the task.",
        f"# launch: {' '.join(f'{name}={value}' for name, value in parameters.items())}",
        *(f"# Rewritten: {name}." for name in program.rewrites),
        "import torch",
        "import triton",
        "import triton.language as tl",
    ]
    parts = ["\n".join(head), *functions_for("\n".join(functions)), *functions, _entry(program, statements)]
    return Candidate(
        language=LanguageName.TRITON, source="\n\n\n".join(parts) + "\n", entry=ENTRY, launch_parameters=parameters
    )


def emit_plain_triton(program: Program) -> Candidate:
    """One row per program, one product kernel: the Triton that is read most easily."""
    return emit_triton(program, PLAIN)


def launch_parameters(program: Program, schedule: TritonSchedule) -> dict[str, int | float | str]:
    fields: tuple[str, ...] = ()
    if any(isinstance(stage, MapStage) for stage in program.stages):
        fields += MAP_FIELDS
    if any(isinstance(stage, ContractionStage) for stage in program.stages):
        fields += TILE_FIELDS + FEW_FIELDS
    if program.others:
        fields += ("algebra",)
    values = schedule.model_dump()
    return {field: values[field] for field in fields}


def _entry(program: Program, statements: list[str]) -> str:
    device = f"{program.task.outputs[0].name}.device"
    buffers = [
        f"{scratch.name} = torch.empty({integer(scratch.numel)}, dtype=torch.{ELEMENT_TYPES[scratch.element_type]}, "
        f"device={device})"
        for scratch in program.scratch
    ]
    members = members_of(program)[: len(members_of(program)) - len(program.scratch)]
    return "\n".join([f"def {ENTRY}({', '.join(members)}):", *(f"    {line}" for line in (*buffers, *statements))])
