"""events_after: what happened to kernels and builds that somebody outside may want to be told of, read from facts.

`kernel.promoted`: a run has measured a build, it passed every gate, and the kernel in it passed its own in this run.
One event for each run and kernel; none for a kernel that a run only carried on from the live build.
`build.live`, `build.rolled_back`, `build.withdrawn`: an approval, whoever gave it.
`kernel.retracted`: somebody took a kernel back. What a run finds wrong with a live kernel is no event of its own: what
follows from it is, a build without the kernel or none.

The id of an event is made from the row that it was read from, so that it is the same whenever it is read. An approval
that the store of builds knows and the ledger does not, because a command was killed between the two, is no event.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import (
    ApprovalRow,
    BuildRow,
    Fact,
    MeasurementRow,
    PromotionRow,
    RetractionRow,
    StageRow,
    TaskRow,
    in_utc,
)
from candidates.measurement import Interval, Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import UNCHANGED, EndToEnd, PromotionDecision, Retraction, decide_build
from candidates.record import Record
from candidates.run import BuildRecord, Stage
from candidates.serving_build.builds import Approval, ApprovalAction
from candidates.task import KernelTask


class EventType(StrEnum):
    KERNEL_PROMOTED = "kernel.promoted"
    KERNEL_RETRACTED = "kernel.retracted"
    BUILD_LIVE = "build.live"
    BUILD_ROLLED_BACK = "build.rolled_back"
    BUILD_WITHDRAWN = "build.withdrawn"


class Circumstances(Record):
    """What is known; None: it is not, or not of this type of event."""

    run_id: str | None = None
    """Of a retraction: the last run that promoted the kernel. Of a build: the last that made it."""
    candidate_id: str | None = None
    op: str | None = None
    device_id: str | None = None
    build_id: str | None = None
    """Of an approval: live from now on."""
    previous_build_id: str | None = None
    speedup: float | None = None
    """Over the best baseline, weighted by traffic, as confirmed."""
    interval: Interval | None = None
    reason: str | None = None
    by: str | None = None


class Positions(Record):
    """Sequences of the last rows that were looked at."""

    stages: int = 0
    approvals: int = 0
    retractions: int = 0

    def at_least(self, others: "Positions") -> "Positions":
        """Each the further of the two."""
        mine, theirs = self.model_dump(), others.model_dump()
        return Positions.model_validate({table: max(mine[table], theirs[table]) for table in mine})


class Event(NamedTuple):
    id: str
    type: EventType
    at: datetime
    circumstances: Circumstances
    table: str
    sequence: int


_TABLES: tuple[type[Fact], ...] = (StageRow, ApprovalRow, RetractionRow)


def events_after(ledger: Ledger, positions: Positions) -> tuple[Event, ...]:
    """Oldest first by the database's clock, and of one second (SQLite's counts those) promotions before approvals."""
    with Session(ledger.engine) as session:
        found = [
            *_promoted(session, positions.stages),
            *_moved(session, positions.approvals),
            *_retracted(session, positions.retractions),
        ]
    return tuple(sorted(found, key=lambda event: event.at))


def newest_positions(ledger: Ledger, before: datetime | None = None) -> Positions:
    """Of the rows that are there now, or of those from before a moment."""
    with Session(ledger.engine) as session:
        newest = {}
        for kind in _TABLES:
            last = select(func.max(kind.sequence))
            found = session.scalar(last if before is None else last.where(kind.recorded_at < before))
            newest[kind.__tablename__] = found or 0
    return Positions.model_validate(newest)


def positions_before(events: Iterable[Event], newest: Positions) -> Positions:
    """As far as `newest`, but with all of `events` still ahead."""
    furthest = newest.model_dump()
    for event in events:
        furthest[event.table] = min(furthest[event.table], event.sequence - 1)
    return Positions.model_validate(furthest)


def _promoted(session: Session, after: int) -> Iterator[Event]:
    rows = select(StageRow).where(StageRow.sequence > after, StageRow.stage == Stage.END_TO_END)
    for row in session.scalars(rows.order_by(StageRow.sequence)):
        figures = EndToEnd.model_validate(row.record)
        if not all(gate.passed for gate in decide_build(figures)):
            continue
        made = select(BuildRow.record).where(BuildRow.run_id == row.run_id, BuildRow.build_id == figures.build_id)
        build = session.scalars(made).first()
        task_ids = () if build is None else BuildRecord.model_validate(build).task_ids
        decisions = select(PromotionRow.record).where(PromotionRow.run_id == row.run_id).order_by(PromotionRow.sequence)
        for record in session.scalars(decisions):
            decision = PromotionDecision.model_validate(record)
            is_carried_on = all(gate.name == UNCHANGED for gate in decision.gates)
            if decision.task_id not in task_ids or not decision.is_promoted or is_carried_on:
                continue
            known = _known_of(session, decision.candidate_id, decision.task_id, row.run_id)
            circumstances = known.model_copy(update={"build_id": figures.build_id})
            yield _event(row, EventType.KERNEL_PROMOTED, circumstances, f"-{decision.candidate_id[:16]}")


_TYPE_OF_ACTION = {
    ApprovalAction.APPROVE: EventType.BUILD_LIVE,
    ApprovalAction.ROLLBACK: EventType.BUILD_ROLLED_BACK,
    ApprovalAction.WITHDRAW: EventType.BUILD_WITHDRAWN,
}


def _moved(session: Session, after: int) -> Iterator[Event]:
    rows = select(ApprovalRow).where(ApprovalRow.sequence > after).order_by(ApprovalRow.sequence)
    for row in session.scalars(rows):
        earlier = select(ApprovalRow.record).where(
            ApprovalRow.build_id == row.build_id, ApprovalRow.sequence < row.sequence
        )
        if row.record in session.scalars(earlier).all():
            continue  # an activity that is tried again records its approval again
        approval = Approval.model_validate(row.record)
        named = approval.build_id or approval.previous
        runs = select(BuildRow.run_id).where(BuildRow.build_id == named).order_by(BuildRow.sequence.desc())
        circumstances = Circumstances(
            run_id=session.scalars(runs).first(),
            build_id=approval.build_id,
            previous_build_id=approval.previous,
            by=approval.by,
        )
        yield _event(row, _TYPE_OF_ACTION[approval.action], circumstances)


def _retracted(session: Session, after: int) -> Iterator[Event]:
    rows = select(RetractionRow).where(RetractionRow.sequence > after).order_by(RetractionRow.sequence)
    for row in session.scalars(rows):
        retraction = Retraction.model_validate(row.record)
        promotions = select(PromotionRow).where(PromotionRow.candidate_id == retraction.candidate_id)
        promoted = session.scalars(promotions.order_by(PromotionRow.sequence.desc())).first()
        known = (
            Circumstances(candidate_id=retraction.candidate_id)
            if promoted is None
            else _known_of(session, retraction.candidate_id, promoted.task_id, promoted.run_id)
        )
        circumstances = known.model_copy(update={"reason": retraction.reason, "by": retraction.by})
        yield _event(row, EventType.KERNEL_RETRACTED, circumstances)


def _known_of(session: Session, candidate_id: str, task_id: str, run_id: str) -> Circumstances:
    tasks = select(TaskRow.record).where(TaskRow.task_id == task_id)
    task = KernelTask.model_validate(session.scalars(tasks).one())
    confirmed = select(MeasurementRow.record).where(
        MeasurementRow.run_id == run_id,
        MeasurementRow.task_id == task_id,
        MeasurementRow.candidate_id == candidate_id,
        MeasurementRow.stage == MeasurementStage.CONFIRM.value,
    )
    record = session.scalars(confirmed).first()
    measurement = None if record is None else Measurement.model_validate(record)
    return Circumstances(
        run_id=run_id,
        candidate_id=candidate_id,
        op=task.op,
        device_id=task.device_id,
        speedup=None if measurement is None else measurement.traffic_weighted_speedup,
        interval=None if measurement is None else measurement.interval,
    )


def _event(row: Fact, kind: EventType, circumstances: Circumstances, suffix: str = "") -> Event:
    """With its second in the id: a receiver may hear of several ledgers, whose rows are counted alike."""
    at = in_utc(row.recorded_at)
    return Event(
        id=f"{row.__tablename__}-{row.sequence}-{int(at.timestamp())}{suffix}",
        type=kind,
        at=at,
        circumstances=circumstances,
        table=row.__tablename__,
        sequence=row.sequence,
    )
