"""Sandbox: running untrusted programs with limits, and whose fault each failure is.

    SandboxError                 machinery or machine at fault (also: somebody outside killed the program); never says
    │                            anything about the program
    └── SandboxUnavailable       this machine cannot run the sandbox; the message carries the fix

What the program itself does wrong (crash, time-out, memory, output flood) is data: `Finished`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import IO, Protocol

SCRATCH = "/scratch"
"""Where a program finds its scratch folder, in every sandbox; it starts there."""


class SandboxError(Exception):
    pass


class SandboxUnavailable(SandboxError):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    wall_s: float = 30.0
    cpu_s: int = 60
    """Of all processes together where the sandbox can (it says so), else of each."""
    memory_bytes: int = 4 << 30
    """Of all processes together where the sandbox can, and of the address space of each."""
    limits_address_space: bool = True
    """False for a program that reserves far more than it touches, such as one built with the address sanitizer: then
    only what is touched is bounded, and where the sandbox cannot, the program must do it itself."""
    processes: int = 64
    """Processes and threads."""
    scratch_bytes: int = 256 << 20
    """All that can be written inside (/scratch, /tmp, /dev/shm); 0: /scratch is read-only, the others are not there."""
    log_bytes: int = 64 << 10
    """How much of the program's stderr is kept (its tail)."""


class Ending(StrEnum):
    EXITED = "exited"
    SIGNALED = "signaled"
    TIMED_OUT = "timed_out"
    OUT_OF_MEMORY = "out_of_memory"
    FORBIDDEN_SYSTEM_CALL = "forbidden_system_call"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    ending: Ending
    exit_code: int
    """Exit status, or the signal's number when SIGNALED."""
    log: str
    """Tail of stdout and stderr together, undecodable bytes replaced."""
    wall_s: float


class SandboxedProcess(Protocol):
    """A program that talks to us over its standard input and output until it is killed."""

    stdin: IO[bytes]
    stdout: IO[bytes]

    def freeze(self) -> None:
        """Returns when no thread of the program can run."""
        ...

    def thaw(self) -> None: ...

    def cpu_time_ns(self) -> int:
        """What all threads of the program have run so far, by the kernel's account; 0 once it has ended."""
        ...

    def kill(self, grace_s: float = 0.0) -> Finished:
        """Ends the whole process tree and reaps it; idempotent. Says how it had ended if it had by itself, for which
        it gets `grace_s` (a program that closed its output takes a moment to end).

        Raises SandboxError when somebody outside the sandbox killed it."""
        ...


class SandboxSession(Protocol):
    """One scratch folder, `/scratch` inside; nothing of it is left after `close`."""

    def put(self, name: str, content: bytes) -> None: ...

    def get(self, name: str, limit_bytes: int = 64 << 20) -> bytes:
        """A regular file from /scratch; refuses links, devices and files above the limit with SandboxError."""
        ...

    def run(self, argv: Sequence[str], environment: Mapping[str, str] | None = None) -> Finished:
        """Waits for the program's end. Raises SandboxError for a disk without room, or a sandbox killed from outside.

        SIGNALED with SIGKILL: by a process inside, or by somebody outside who aimed at it; that cannot be told.
        """
        ...

    def start(
        self,
        argv: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        file_descriptors: Sequence[int] = (),
        core: int | None = None,
    ) -> SandboxedProcess:
        """`file_descriptors` keep their numbers inside. `core` pins the program to one core, for good.

        A session is for one such program, its last."""
        ...

    def close(self) -> None: ...

    def __enter__(self) -> "SandboxSession": ...

    def __exit__(self, *exc: object) -> None: ...


class Sandbox(Protocol):
    name: str

    def open(self, limits: Limits, read_only: Mapping[Path, str] | None = None) -> SandboxSession:
        """`read_only` maps host paths to where they appear inside, beside the system's compilers and libraries."""
        ...

    def describe_limits(self) -> str:
        """One line, after a tiny real run: what holds a program's limits here. Raises SandboxUnavailable, with the
        fix."""
        ...
