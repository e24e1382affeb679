"""How the programs of `compiler-agent up` are: what it writes to `up.json` in the home, and others read."""

import contextlib
from datetime import datetime
from enum import StrEnum
from pathlib import Path

from pydantic import ValidationError

from candidates.record import Record
from candidates.whole_file import write_whole
from compiler_agent.home_lock import find_holder


class ProgramState(StrEnum):
    STARTING = "starting"
    READY = "ready"
    WAITING = "waiting"
    """It ended, and is started again after a while."""
    STOPPED = "stopped"


class ProgramHealth(Record):
    name: str
    state: ProgramState
    since: datetime
    pid: int | None
    restarts: int
    last_exit: int | None
    """Negative: the signal that ended it. None: it has not ended yet."""
    log: str


class Service(Record):
    """What `up` serves with; a run that goes through it must want the same."""

    temporal_address: str
    temporal_namespace: str
    ledger_digest: str
    """Of the URL, which may hold a password."""
    sandbox: str
    gpu_uuid: str | None


class UpHealth(Record):
    pid: int
    started_at: datetime
    service: Service
    leaderboard: str
    programs: tuple[ProgramHealth, ...]

    @property
    def is_ready(self) -> bool:
        return all(program.state is ProgramState.READY for program in self.programs)


def write_up_health(home: Path, health: UpHealth) -> None:
    write_whole(_file(home), health.model_dump_json(indent=1).encode())


def find_up(home: Path) -> UpHealth | None:
    """What the `up` that has the home now last said; None: there is none."""
    with contextlib.suppress(FileNotFoundError, ValidationError):
        health = UpHealth.model_validate_json(_file(home).read_bytes())
        holder = find_holder(home)
        # One that was killed leaves its file.
        return health if holder is not None and holder.pid == health.pid else None
    return None


def remove_up_health(home: Path) -> None:
    _file(home).unlink(missing_ok=True)


def _file(home: Path) -> Path:
    return home / "up.json"
