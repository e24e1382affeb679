"""RunStates: whether a run has ended, failed, goes on, or says nothing any more.

A run that was killed cannot say so: what tells is that it makes no progress.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import ClassVar, TypeVar

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger, RecordedProgress, RunEntry
from candidates.ledger.tables import ProgressRow, RunEndRow, RunFailureRow, RunRow, in_utc
from candidates.run import Progress, RunFailure

Row = TypeVar("Row", ProgressRow, RunFailureRow)

SILENT_S = 600.0
"""A run without progress for so long is taken for stopped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ended:
    word: ClassVar[str] = "ended"
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Running:
    word: ClassVar[str] = "running"
    last: RecordedProgress | None
    """None: it has only begun."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    word: ClassVar[str] = "stopped"
    since: datetime
    """Of its last progress, or of its beginning."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Failed:
    word: ClassVar[str] = "failed"
    at: datetime
    message: str


RunState = Ended | Running | Stopped | Failed


class RunStates:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put_failure(self, run_id: str, message: str) -> None:
        with Session(self._ledger.engine) as session:
            last = session.scalar(select(func.max(ProgressRow.sequence)).where(ProgressRow.run_id == run_id))
        failure = RunFailure(message=message, after_progress=last or 0)
        self._ledger.insert(RunFailureRow(run_id=run_id, record=failure.model_dump(mode="json")))

    def going_on(self, among: int) -> tuple[RunEntry, ...]:
        """Those of the newest `among` runs that go on, the newest first."""
        newest = (
            select(RunRow.run_id, RunEndRow.run_id)
            .outerjoin(RunEndRow, RunEndRow.run_id == RunRow.run_id)
            .order_by(RunRow.sequence.desc())
            .limit(among)
        )
        with Session(self._ledger.reader) as session:
            open_ids = [run_id for run_id, ended_id in session.execute(newest) if ended_id is None]
        runs = [run for run_id in open_ids if (run := self._ledger.run(run_id)) is not None]
        states = self.of(runs)
        return tuple(run for run in runs if isinstance(states[run.run_id], Running))

    def of(self, runs: Sequence[RunEntry], now: datetime | None = None) -> dict[str, RunState]:
        """By run id."""
        open_ids = [run.run_id for run in runs if run.ended_at is None]
        with Session(self._ledger.reader) as session:
            progress = _latest(session, ProgressRow, open_ids)
            failures = _latest(session, RunFailureRow, open_ids)
        states = {}
        for run in runs:
            last, failed = progress.get(run.run_id), failures.get(run.run_id)
            states[run.run_id] = decide_run_state(
                run,
                None
                if last is None
                else RecordedProgress(last.sequence, in_utc(last.recorded_at), Progress.model_validate(last.record)),
                None if failed is None else (in_utc(failed.recorded_at), RunFailure.model_validate(failed.record)),
                now or datetime.now(UTC),
            )
        return states


def decide_run_state(
    run: RunEntry, last: RecordedProgress | None, failed: tuple[datetime, RunFailure] | None, now: datetime
) -> RunState:
    """From the latest progress and the latest failure; progress after a failure says that the run was gone on with."""
    if run.ended_at is not None:
        return Ended(at=run.ended_at)
    if failed is not None and (last is None or last.sequence <= failed[1].after_progress):
        return Failed(at=failed[0], message=failed[1].message)
    since = run.started_at if last is None else last.recorded_at
    return Stopped(since=since) if (now - since).total_seconds() > SILENT_S else Running(last=last)


def _latest(session: Session, kind: type[Row], run_ids: Sequence[str]) -> dict[str, Row]:
    newest = select(func.max(kind.sequence)).where(kind.run_id.in_(run_ids)).group_by(kind.run_id)
    return {row.run_id: row for row in session.scalars(select(kind).where(kind.sequence.in_(newest)))}
