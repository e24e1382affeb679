"""Runs a problem's own Python in a sandbox and takes back what a task needs: the exported op, as plain text.

Neither the judge nor the command that imports ever runs a line of the user's file.
"""

import sys
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from candidates.exported_op import ExportedOp, Obstructed
from candidates.problems.export_process import ANSWER, CODE, REQUEST, Answer, Obstruction
from candidates.problems.plain_reference import require_plain
from candidates.problems.problem import DefinitionSource, ModelSource
from kernel_sandbox.sandbox import Ending, Finished, Limits, Sandbox, SandboxError

LIMITS = Limits(wall_s=180.0, cpu_s=360, memory_bytes=64 << 30, processes=64, scratch_bytes=64 << 20)
"""The memory is of addresses, of which torch takes many."""

_PROJECT = "/project"
_PACKAGES = ("candidates", "traces", "kernel_sandbox")
_PROGRAM = f"import sys; sys.path.insert(0, {_PROJECT!r}); from candidates.problems.export_process import main; main()"


def export_in_sandbox(sandbox: Sandbox, source: ModelSource | DefinitionSource) -> ExportedOp:
    """Raises Obstructed for what the problem is to blame for, SandboxError for the machine's faults."""
    root = Path(__file__).resolve().parents[2]
    python = {Path(prefix).absolute() for prefix in (sys.base_prefix, sys.prefix)}
    shown = {path: str(path) for path in python} | {root / name: f"{_PROJECT}/{name}" for name in _PACKAGES}
    with sandbox.open(LIMITS, shown) as session:
        session.put(CODE, source.source.encode())
        session.put(REQUEST, source.model_dump_json().encode())
        finished = session.run([sys.executable, "-I", "-B", "-c", _PROGRAM])
        try:
            answer = session.get(ANSWER)
        except SandboxError as error:
            raise Obstructed(_how_it_ended(finished)) from error
    try:
        exported: Answer = TypeAdapter(Answer).validate_json(answer)
        if isinstance(exported, Obstruction):
            raise Obstructed(exported.reason)
        require_plain(exported.reference)
    except ValueError as error:
        if isinstance(error, ValidationError):
            raise Obstructed("it left an answer that is no exported op") from error
        raise Obstructed(str(error)) from error
    return exported


def _how_it_ended(finished: Finished) -> str:
    if finished.ending is Ending.TIMED_OUT:
        return f"running and exporting it takes more than {LIMITS.wall_s:.0f} s"
    if finished.ending in (Ending.OUT_OF_MEMORY, Ending.SIGNALED):
        return f"it was killed while it ran ({finished.ending.value} {finished.exit_code}): does it fit in memory?"
    last = next(iter(finished.log.strip().splitlines()[-1:]), "no message")
    return f"it ended without an answer ({finished.ending.value} {finished.exit_code}): {last}"
