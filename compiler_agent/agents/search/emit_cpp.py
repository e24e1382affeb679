"""Emission: a program under a schedule becomes one readable C++ source with the C ABI of the `cpp` language."""

from candidates.candidate import Candidate, LanguageName
from candidates.task import InputRole
from compiler_agent.agents.search.cpp_prelude import CONTRACTION_PRELUDE, PRELUDE
from compiler_agent.agents.search.emit_call import members_of
from compiler_agent.agents.search.emit_contraction import emit_contraction_stage
from compiler_agent.agents.search.emit_map import emit_map_stage
from compiler_agent.agents.search.emit_prepare import (
    FORMAT_TYPES,
    emit_prepare,
    kept_format,
    packed_bytes,
    weights_of,
)
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.packed_prelude import PACKED_PRELUDE
from compiler_agent.agents.search.program import ContractionStage, Program
from compiler_agent.agents.search.schedule import Schedule

ENTRY = "kernel"
PREPARE = "prepare"


def emit_candidate(program: Program, schedule: Schedule) -> Candidate:
    """The candidate for `program` under `schedule`; its launch parameters are the schedule."""
    program = program.under(schedule.algebra)
    packs = _packed_stages(program, schedule)
    has_blocks = any(kept_format(stage, program, schedule) in FORMAT_TYPES for stage in packs)
    calls: list[str] = []
    functions: list[str] = []
    packed_before: list[ContractionStage] = []
    for place, stage in enumerate(program.stages):
        if isinstance(stage, ContractionStage):
            function, call = emit_contraction_stage(
                f"stage{place}", stage, program, schedule, packed_before, scratch_slot=100 * (place + 1)
            )
            packed_before = [*packed_before, stage]
        else:
            function, call = emit_map_stage(f"stage{place}", stage, program, schedule, scratch_slot=100 * (place + 1))
        functions.append(function)
        calls.append(call)
    parts = [
        f"// {program.task.op}: {len(program.stages)} stage(s), written from the graph of the task.",
        f"// Schedule: {', '.join(f'{name}={value}' for name, value in schedule.model_dump().items())}",
        *(f"// Rewritten: {name}." for name in program.rewrites),
        PRELUDE.replace("VECTOR_WIDTH", str(schedule.vector_width)),
        CONTRACTION_PRELUDE if any(isinstance(stage, ContractionStage) for stage in program.stages) else "",
        PACKED_PRELUDE if has_blocks else "",
        _call_struct(program, bool(packs)),
        *functions,
        "}  // namespace\n",
        emit_prepare(packs, program, schedule, PREPARE) if packs else "",
        _entry(program, calls, bool(packs)),
    ]
    return Candidate(
        language=LanguageName.CPP,
        source="\n".join(part for part in parts if part),
        entry=ENTRY,
        prepare=PREPARE if packs else None,
        launch_parameters=schedule.model_dump(),
    )


def parameter_bytes(program: Program, schedule: Schedule) -> int:
    """Of the packed ones as they are packed, of the others as they are."""
    program = program.under(schedule.algebra)
    packs = _packed_stages(program, schedule)
    packed = {weights_of(stage).buffer for stage in packs}
    axes = program.task.workloads[0].axes
    parameters = program.task.inputs_of(InputRole.PARAMETER)
    return packed_bytes(packs, program, schedule) + sum(
        spec.size_bytes(axes) for spec in parameters if spec.name not in packed
    )


def _packed_stages(program: Program, schedule: Schedule) -> list[ContractionStage]:
    stages = [stage for stage in program.stages if isinstance(stage, ContractionStage)]
    return [] if schedule.weights == "rows" else stages


def _call_struct(program: Program, has_prepared: bool) -> str:
    fields = "\n".join(f"  {kind} {name};" for kind, name in members_of(program, has_prepared))
    return f"struct Call {{\n{fields}\n}};\n"


def _entry(program: Program, calls: list[str], has_prepared: bool) -> str:
    members = list(members_of(program, has_prepared))
    own = len(program.scratch)
    parameters = ", ".join(f"{kind} {name}" for kind, name in members[: len(members) - own])
    buffers = [f"scratch_of_thread<{place}>({integer(each.numel)})" for place, each in enumerate(program.scratch)]
    values = ", ".join([name for _, name in members[: len(members) - own]] + buffers)
    body = "\n".join(f"  {call}" for call in calls)
    return f'extern "C" void {ENTRY}({parameters}) {{\n  const Call call{{{values}}};\n{body}\n}}\n'
