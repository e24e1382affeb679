"""hold_home: one `run` or `up` at a time in a home, which share one embedded server's database and one device."""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from pydantic import ValidationError

from candidates.record import Record
from compiler_agent.outcome import UserFault

_PATIENCE_S = 1.0  # `find_holder` has the lock for a moment


class Holder(Record):
    pid: int
    command: str


class HomeTaken(UserFault):
    """Somebody else holds it."""

    def __init__(self, home: Path, holder: Holder | None) -> None:
        who = "another command" if holder is None else f"`compiler-agent {holder.command}` (pid {holder.pid})"
        super().__init__(f"{who} has {home}: wait until it ends, stop it, or set COMPILER_AGENT_HOME to another folder")
        self.holder = holder


@contextlib.contextmanager
def hold_home(home: Path, command: str) -> Iterator[None]:
    """Until the context or the process ends. Raises HomeTaken."""
    home.mkdir(parents=True, exist_ok=True)
    with _lock_file(home).open("a+") as file:
        deadline = time.monotonic() + _PATIENCE_S
        while not _is_locked(file, fcntl.LOCK_EX):
            if time.monotonic() > deadline:
                raise HomeTaken(home, _read(file))
            time.sleep(0.1)
        file.truncate(0)
        file.write(Holder(pid=os.getpid(), command=command).model_dump_json())
        file.flush()
        yield


def find_holder(home: Path) -> Holder | None:
    """Who holds it now; None: nobody does."""
    try:
        with _lock_file(home).open() as file:
            return None if _is_locked(file, fcntl.LOCK_SH) else _read(file)
    except FileNotFoundError:
        return None


def _lock_file(home: Path) -> Path:
    return home / "run.lock"


def _is_locked(file: IO[str], mode: int) -> bool:
    try:
        fcntl.flock(file, mode | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _read(file: IO[str]) -> Holder | None:
    file.seek(0)
    with contextlib.suppress(ValidationError):
        return Holder.model_validate_json(file.read())
    return None
