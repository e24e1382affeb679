"""Starts a child for one job and bounds its time; how it ended is data."""

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from tempfile import TemporaryDirectory

from pydantic import TypeAdapter, ValidationError

from candidates.judge.compute_sanitizer_log import ENVIRONMENT, Tool, sanitizer_command
from compiler_agent.gpu_check.results import Answer, Job
from kernel_sandbox.runners.gpu_device import DEVICE_FAULT_STATUS, NO_DEVICE_STATUS

CHILD = (sys.executable, "-m", "compiler_agent.gpu_check.child")
_SHOWN_CHARACTERS = 2000
_ANSWERS: TypeAdapter[Answer] = TypeAdapter(Answer)


class ChildEnding(StrEnum):
    DONE = "done"
    NO_DEVICE = "no_device"
    DEVICE_FAULT = "device_fault"
    OUT_OF_TIME = "out_of_time"
    FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChildEnd:
    ending: ChildEnding
    answers: tuple[Answer, ...]
    """All that it gave before it ended."""
    log: str
    """The end of what it printed beside them."""


def run_child(job: Job, limit_s: float, command: Sequence[str] = CHILD) -> ChildEnd:
    """The child, and what it started (compilers), are gone when this returns."""
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    ) as child:
        is_late = False
        try:
            said, log = child.communicate(job.model_dump_json().encode(), timeout=limit_s)
        except subprocess.TimeoutExpired:
            is_late = True
            _end(child)
            said, log = child.communicate()
        finally:
            _end(child)
    ending = {
        0: ChildEnding.DONE,
        DEVICE_FAULT_STATUS: ChildEnding.DEVICE_FAULT,
        NO_DEVICE_STATUS: ChildEnding.NO_DEVICE,
    }.get(child.returncode, ChildEnding.FAILED)
    return ChildEnd(
        ending=ChildEnding.OUT_OF_TIME if is_late else ending,
        answers=tuple(_read(said)),
        log=log.decode(errors="replace")[-_SHOWN_CHARACTERS:],
    )


def run_sanitized(job: Job, limit_s: float, command: Sequence[str] = CHILD) -> str:
    """The log of compute-sanitizer's memcheck, which watches a child do the job; empty where it wrote none."""
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        variables = [f"{name}={value}" for name, value in ENVIRONMENT.items()]
        run_child(job, limit_s, ("env", *variables, *sanitizer_command(Tool.MEMCHECK, str(log), command)))
        return log.read_text(errors="replace") if log.exists() else ""


def _end(child: "subprocess.Popen[bytes]") -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)


def _read(said: bytes) -> list[Answer]:
    answers = []
    for line in said.splitlines():
        with contextlib.suppress(ValidationError):  # the last line of one that was ended may be half a line
            answers.append(_ANSWERS.validate_json(line))
    return answers
