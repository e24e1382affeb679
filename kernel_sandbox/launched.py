"""LaunchedProgram: a program inside its sandbox, as the means that started it see it (a launcher, a container)."""

from dataclasses import dataclass
from typing import Protocol

from kernel_sandbox.control_groups import MemoryAccount


@dataclass(frozen=True, slots=True, kw_only=True)
class Reaped:
    """What is known of a program that has ended."""

    status: int
    """Exit code, 128 + n for signal n; or minus the signal that ended what was to tell."""
    cpu_s: float
    memory: MemoryAccount


class LaunchedProgram(Protocol):
    root_pid: int
    """Of process 1 of the sandbox's pid namespace, as seen from here."""
    ended_fd: int
    """Readable when the program has ended, with all that it started."""

    def kill(self) -> None:
        """Ends the program and all that it started, soon. May be repeated, also when it has ended."""
        ...

    def cpu_time_s(self) -> float | None:
        """Of all its processes so far; None where that is not counted."""
        ...

    def reap(self) -> Reaped:
        """Once, after `ended_fd` is readable. Raises SandboxError for what does not end."""
        ...

    def release(self) -> None:
        """Removes what belonged to the program alone. Idempotent. Raises SandboxError for what stays."""
        ...
