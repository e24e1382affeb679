"""Supervisor: starts programs in order, starts again what ends, and stops all of them in the opposite order.

It knows how its programs are by what they say or answer; one that hangs without ending is not noticed.
"""

import contextlib
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from candidates.printable import printable
from compiler_agent.child_processes import end_group, start_child, stop_children
from compiler_agent.program_health import ProgramHealth, ProgramState
from compiler_agent.readiness import Listener

POLL_S = 0.2
FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
STEADY_S = 60.0
"""Who was ready for so long is started again at once, as if it had never ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    name: str
    argv: tuple[str, ...]
    environment: Mapping[str, str]
    log: Path
    stage: int
    """All of one stage stop at once, the last stage first."""
    is_awaited: bool = False
    """Later stages start when it is ready for the first time."""
    stop_patience_s: float
    answers: Callable[[], bool] | None = None
    """Whether it serves. None: it tells so itself, as `readiness` says."""


class NeverReady(Exception):
    """A program ended before it was ready, and others wait for it; the message names its log."""


class Supervisor:
    """A context manager: no program outlives it."""

    def __init__(self, programs: Sequence[Program], tell: Callable[[tuple[ProgramHealth, ...], str], None]) -> None:
        """`tell` gets the health of all and a line about what has changed. An OSError of it ends nothing: a terminal
        that was closed and a full disk are no reason to end what works."""
        self._supervised = [_Supervised(program) for program in programs]
        self._tell = tell

    def __enter__(self) -> "Supervisor":
        return self

    def __exit__(self, *exc: object) -> None:
        for stage in sorted({one.program.stage for one in self._supervised}, reverse=True):
            stopping = [one for one in self._supervised if one.program.stage == stage]
            stop_children([one.child for one in stopping if one.child], stopping[0].program.stop_patience_s)
            for one in stopping:
                one.end()
                self._say(one, "stopped")

    def watch(self, is_over: Callable[[], bool]) -> None:
        """Returns when it is over. Raises NeverReady."""
        while not is_over():
            for one in self._supervised:
                if not self._waits(one) and (change := one.look()):
                    self._say(one, change)
            time.sleep(POLL_S)

    def _waits(self, one: "_Supervised") -> bool:
        return any(
            other.program.is_awaited and not other.was_ready and other.program.stage < one.program.stage
            for other in self._supervised
        )

    def _say(self, one: "_Supervised", change: str) -> None:
        with contextlib.suppress(OSError):
            self._tell(tuple(one.health() for one in self._supervised), f"{one.program.name}: {change}")


class _Supervised:
    """One program and its present process."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.child: subprocess.Popen[bytes] | None = None
        self.was_ready = False
        self._state = ProgramState.WAITING
        self._since = datetime.now(UTC)
        self._since_s = 0.0
        self._wait_s = 0.0
        self._restarts = 0
        self._last_exit: int | None = None
        self._listener = Listener()

    def look(self) -> str | None:
        """Does what is due, and says it if it is a change. Raises NeverReady for one that others wait for."""
        if self.child is None:
            return self._start() if time.monotonic() >= self._since_s + self._wait_s else None
        status = self.child.poll()
        if status is not None:
            if self.program.is_awaited and not self.was_ready:
                raise NeverReady(
                    f"{self.program.name} {ended_with(status)} before it was ready: see {self.program.log}"
                )
            return self._wait(status)
        if self._state is ProgramState.STARTING and self._is_ready():
            self.was_ready = True
            self._enter(ProgramState.READY)
            return f"ready (pid {self.child.pid})"
        return None

    def end(self) -> None:
        if self.child is not None:
            self._last_exit = self.child.returncode
            end_group(self.child)
            self.child = None
        self._listener.close()
        self._enter(ProgramState.STOPPED)

    def health(self) -> ProgramHealth:
        return ProgramHealth(
            name=self.program.name,
            state=self._state,
            since=self._since,
            pid=None if self.child is None else self.child.pid,
            restarts=self._restarts,
            last_exit=self._last_exit,
            log=str(self.program.log),
        )

    def _start(self) -> str:
        self._listener.was_told_ready()  # what the one before has said is said
        environment = {**self.program.environment, **self._listener.environment}
        try:
            self.child = start_child(self.program.argv, self.program.log, environment)
        except OSError as error:  # no log can be written, or there is no room for a process: both may pass
            said = f"cannot be started ({error.strerror}: {error.filename or self.program.argv[0]})"
            if self.program.is_awaited and not self.was_ready:
                raise NeverReady(f"{self.program.name} {said}") from error
            self._wait_longer()
            return f"{said}, again in {self._wait_s:g} s"
        if self._last_exit is not None:
            self._restarts += 1
        self._enter(ProgramState.STARTING)
        return f"starting (pid {self.child.pid})"

    def _is_ready(self) -> bool:
        return self._listener.was_told_ready() if self.program.answers is None else self.program.answers()

    def _wait(self, status: int) -> str:
        assert self.child is not None
        was_steady = self._state is ProgramState.READY and time.monotonic() - self._since_s >= STEADY_S
        self._last_exit = status
        end_group(self.child)
        self.child = None
        if was_steady:
            self._wait_s = 0.0
        self._wait_longer()
        return f"{ended_with(status)}, again in {self._wait_s:g} s; {_last_line(self.program.log)} ({self.program.log})"

    def _wait_longer(self) -> None:
        self._wait_s = min(max(2 * self._wait_s, FIRST_WAIT_S), LONGEST_WAIT_S)
        self._enter(ProgramState.WAITING)

    def _enter(self, state: ProgramState) -> None:
        self._state, self._since, self._since_s = state, datetime.now(UTC), time.monotonic()


def ended_with(status: int) -> str:
    return f"was killed by signal {-status}" if status < 0 else f"ended with status {status}"


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError), log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - 2000))
        lines = [line for line in file.read().decode(errors="replace").splitlines() if line.strip()]
        return printable(lines[-1].strip()[:300]) if lines else "it said nothing"
    return "it said nothing"
