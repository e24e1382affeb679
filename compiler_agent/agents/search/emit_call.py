"""What a stage may use of a call: inputs, outputs, prepared weights, axis sizes and scratch, in one struct."""

import re
from collections.abc import Iterable

from candidates.task import InputRole
from compiler_agent.agents.search.emit_expressions import STORAGE_TYPES
from compiler_agent.agents.search.program import Program


def members_of(program: Program, has_prepared: bool) -> Iterable[tuple[str, str]]:
    """C++ type and name of everything that a stage may use, in the order of the ABI; scratch last."""
    for spec in program.task.inputs:
        const = "" if spec.role is InputRole.STATE else "const "
        yield f"{const}{STORAGE_TYPES[spec.element_type]}*", spec.name
    for output in program.task.outputs:
        yield f"{STORAGE_TYPES[output.element_type]}*", output.name
    if has_prepared:
        yield "const void*", "prepared"
    for axis in program.task.axes:
        yield "int64_t", axis
    for scratch in program.scratch:
        yield "float*", scratch.name


def unpacked(program: Program, lines: Iterable[str], written: set[str]) -> list[str]:
    """Local copies of the members of the call that `lines` mention; what a stage writes aliases nothing."""
    mentioned = set(re.findall(r"[A-Za-z_]\w*", "\n".join(lines)))
    return [
        f"{kind} {'__restrict ' if name in written else ''}{name} = call.{name};"
        for kind, name in members_of(program, has_prepared=True)
        if name in mentioned
    ]
