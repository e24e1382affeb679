"""How a program ended, from its exit status, the kernel's counters and what we did to it; whose fault a SIGKILL is.

A program that exits with 128 + n reads as ended by signal n: what counts is the status, and lying about it gains
nothing, except for SIGKILL, which means that the machinery failed; the system call filter keeps started programs from
exiting like that (`seccomp_filter`).
"""

import signal
from dataclasses import dataclass
from enum import Enum, auto
from pathlib import Path

from kernel_sandbox.control_groups import MemoryAccount
from kernel_sandbox.sandbox import Ending, SandboxError

_OUT_OF_MEMORY_WORDS = ("std::bad_alloc", "MemoryError", "out of memory", "memory exhausted", "Cannot allocate memory")
_MUCH_OF_MEMORY = 0.5


class Cause(Enum):
    """Why we killed the program ourselves."""

    TIME = auto()
    SCRATCH = auto()
    REQUEST = auto()


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    cause: Cause | None
    launcher_status: int
    """Exit code of the process outside that passes the program's status on, or minus the signal that ended *it*."""
    log: str
    used_up_cpu: bool
    memory: MemoryAccount
    machine_bytes: int
    is_first_process: bool
    """The program is process 1 of its namespace: nothing inside can kill it."""


def read_ending(evidence: Evidence) -> tuple[Ending, int]:
    """The ending with the exit status or signal. Raises SandboxError for an end that the program cannot have caused."""
    match evidence.cause:
        case Cause.TIME:
            return Ending.TIMED_OUT, signal.SIGKILL
        case Cause.SCRATCH:
            return Ending.SIGNALED, signal.SIGXFSZ
        case Cause.REQUEST:
            return Ending.SIGNALED, signal.SIGKILL
    code = evidence.launcher_status
    if code and _is_fault_of_program(evidence):
        return Ending.OUT_OF_MEMORY, _signal_in(code) or abs(code)
    if code < 0:
        name = signal.Signals(-code).name
        raise SandboxError(f"the sandbox's own process was ended by {name}: somebody on this machine killed it")
    number = _signal_in(code)
    if number == signal.SIGSYS:
        return Ending.FORBIDDEN_SYSTEM_CALL, number
    if number == signal.SIGXCPU or (number == signal.SIGKILL and evidence.used_up_cpu):
        return Ending.TIMED_OUT, number
    if number == signal.SIGKILL and (evidence.is_first_process or evidence.memory.was_killed):
        raise SandboxError(
            "the program was killed from outside: by the machine's out-of-memory killer (see dmesg), or by somebody"
        )
    if code and number != signal.SIGKILL and any(words in evidence.log for words in _OUT_OF_MEMORY_WORDS):
        return Ending.OUT_OF_MEMORY, number or code
    if number:
        return Ending.SIGNALED, number
    return Ending.EXITED, code


def _signal_in(status: int) -> int:
    return status - 128 if 128 < status <= 128 + signal.SIGRTMAX else 0


def host_oom_kills() -> int:
    """Processes that the kernel ended for want of memory since boot, in all groups (proc_vmstat)."""
    for line in Path("/proc/vmstat").read_text().splitlines():
        if line.startswith("oom_kill "):
            return int(line.split()[1])
    return 0


def _is_fault_of_program(evidence: Evidence) -> bool:
    """A process was killed for memory: for its own limit's, or on a machine whose memory it held most of."""
    held_much = evidence.memory.peak_bytes > evidence.machine_bytes * _MUCH_OF_MEMORY
    return evidence.memory.was_killed and (evidence.memory.met_its_limit or held_much)
