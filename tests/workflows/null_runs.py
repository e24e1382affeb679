"""Runs over the null device as tests follow them: begun once, looked at in the ledger."""

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from benchmarks.null_device.request import make_null_request
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import start_null_run, worker_command
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow
from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from compiler_agent.worker_programs import worker_environment
from tests.workflows.chaos import picture_of

T = TypeVar("T")

RUN_ID = "run"
ENDING_S = 15.0
STALLED_S = 90.0
"""A try whose worker was killed is noticed after 20 s; this is longer than anything that happens here."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    seed: int
    hot_ops: int
    candidates_per_op: int

    @property
    def attempts(self) -> int:
        return self.hot_ops * self.candidates_per_op

    def begin(self, address: str, ledger: Ledger) -> None:
        request = make_null_request(
            self.seed, hot_ops=self.hot_ops, candidates_per_op=self.candidates_per_op, approve_automatically=True
        )

        async def start() -> None:
            await start_null_run(await connect(address, "default"), ledger, request, RUN_ID)

        asyncio.run(start())

    def await_work(self, address: str, ledger: Ledger, least: float | None) -> None:
        """Until so many candidates were tried; without a number, until the run has ended."""
        seen, since_s = 0, time.monotonic()
        while True:
            if _asked(lambda: ledger.report(RUN_ID)) is not None:
                return
            done = _asked(lambda: self.count_attempts(ledger)) or 0
            if least is not None and done >= least:
                return
            if done > seen:
                seen, since_s = done, time.monotonic()
            if time.monotonic() - since_s > STALLED_S:
                raise AssertionError(f"the run does not go on after {seen}: {asyncio.run(_states(address))}")
            time.sleep(0.05)

    def count_attempts_when_back(self, ledger: Ledger) -> int:
        """When the database is."""
        while (done := _asked(lambda: self.count_attempts(ledger))) is None:
            time.sleep(0.05)
        return done

    def count_attempts(self, ledger: Ledger) -> int:
        with Session(ledger.reader) as session:
            return session.scalars(select(func.count()).select_from(AttemptRow)).one()


def settings_of(home: Path, ledger_url: str | None = None) -> Settings:
    """Without `ledger_url` the ledger is a file there."""
    return Settings(
        home=home,
        ledger_url=ledger_url or f"sqlite:///{home / 'ledger.sqlite'}",
        temporal_address=None,
        temporal_namespace="default",
    )


@contextlib.contextmanager
def null_worker(
    settings: Settings,
    address: str,
    options: Sequence[str],
    queues: Sequence[str] = QUEUES,
    machine: Path | None = None,
) -> Iterator[None]:
    """One process for all of the queues: each imports PyTorch. `machine`: its folder for temporary files, where the
    lock of the device lies; without it one of its own, so that it waits for nobody who measures in earnest."""
    with tempfile.TemporaryDirectory(prefix="null-") as own:
        Path(own).chmod(0o755)
        told = worker_environment(settings, address) | {"TMPDIR": str(machine or own)}
        worker = start_child(worker_command(queues, options), settings.logs / "worker.log", told)
        try:
            yield
        finally:
            stop_children([worker], ENDING_S)


def undisturbed(run: Run, folder: Path, options: Sequence[str]) -> dict[str, list[str]]:
    """The picture of the ledger after such a run."""
    settings = settings_of(folder)
    ledger = Ledger(settings.ledger_url)
    with temporal_server(settings) as address, null_worker(settings, address, options):
        run.begin(address, ledger)
        run.await_work(address, ledger, None)
    return picture_of(ledger)


def _asked(question: Callable[[], T]) -> T | None:
    """None while the database is away."""
    with contextlib.suppress(SQLAlchemyError):
        return question()
    return None


async def _states(address: str) -> list[Any]:
    client = await connect(address, "default")
    states = [await client.get_workflow_handle(each.id).describe() async for each in client.list_workflows()]
    return [(state.id, state.status, state.raw_description.pending_activities) for state in states]
