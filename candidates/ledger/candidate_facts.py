"""facts_of: what there is to say of one candidate at one task, newest first, and no more of it than a reader looks at.

Every query goes along an index of the candidate, however many others there are.
"""

from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.ledger.latest_words import Evaluation, latest_words
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.standing_rows import StandingRow
from candidates.ledger.tables import (
    AttemptRow,
    BuildRow,
    EvaluationRow,
    MeasurementRow,
    PromotionRow,
    TaskRow,
    in_utc,
)
from candidates.measurement import Measurement
from candidates.promotion import UNCHANGED, PromotionDecision
from candidates.standing import State
from candidates.task import KernelTask

F = TypeVar("F", AttemptRow, MeasurementRow, EvaluationRow, PromotionRow)

MOST_TRIALS = 20
_STAGES = 2
"""Race and confirmation, the measurements that a run adds to the screening in its attempt."""
_MOST_BUILDS = 3
_WHOLE_ID = 64
"""Characters of a digest."""


class Trial(NamedTuple):
    """What one run, or a person, had judged or measured."""

    run_id: str | None
    """None: a person asked for it."""
    at: datetime
    attempt: Attempt | None
    """None: the run measured what another had judged."""
    measurements: tuple[Measurement, ...]
    """In the order in which they were made, the screening first."""


class GateDecision(NamedTuple):
    """What a run decided of the kernel's own gates, passed or not."""

    run_id: str
    at: datetime
    decision: PromotionDecision


class CandidateFacts(NamedTuple):
    task: KernelTask
    word: Evaluation | None
    """The latest, with the latest measurement; None: it was never judged for the task."""
    trials: tuple[Trial, ...]
    """Newest first, MOST_TRIALS at most."""
    gates: GateDecision | None
    """The latest, earned by being measured where the ledger still knows that."""
    builds: tuple[str, ...]
    """Of the run that decided the gates, the newest first, three at most."""


def facts_of(ledger: Ledger, candidate_id: str, task_id: str) -> CandidateFacts:
    """Both ids whole. Raises LedgerError for a task that is not there."""
    with Session(ledger.reader) as session:
        record = session.scalar(select(TaskRow.record).where(TaskRow.task_id == task_id))
        if record is None:
            raise LedgerError(f"task {task_id[:_WHOLE_ID]} is not in the ledger")
        word = next(iter(latest_words(session, task_id, [candidate_id])), None)
        gates = _gates(session, candidate_id, task_id)
        return CandidateFacts(
            task=KernelTask.model_validate(record),
            word=word,
            trials=_trials(session, candidate_id, task_id),
            gates=gates,
            builds=() if gates is None else _builds(session, gates.run_id),
        )


def fastest_of_op(ledger: Ledger, op: str, device_id: str, besides: str) -> str | None:
    """The candidate of the op on the device that was measured fastest, and not found wrong."""
    statement = (
        select(StandingRow.candidate_id)
        .where(
            StandingRow.op == op,
            StandingRow.device_id == device_id,
            StandingRow.candidate_id != besides,
            StandingRow.speedup > 0,
            StandingRow.state.not_in((State.REJECTED.value, State.RETRACTED.value)),
        )
        .order_by(StandingRow.speedup.desc(), StandingRow.number.desc())
    )
    with Session(ledger.reader) as session:
        return session.scalars(statement.limit(1)).first()


def _trials(session: Session, candidate_id: str, task_id: str) -> tuple[Trial, ...]:
    found: dict[str | None, Trial] = {}
    for measured in reversed(_newest(session, MeasurementRow, candidate_id, task_id, _STAGES * MOST_TRIALS)):
        measurement = Measurement.model_validate(measured.record)
        known = found.get(measured.run_id)
        before = () if known is None else known.measurements
        at = in_utc(measured.recorded_at)
        found[measured.run_id] = Trial(measured.run_id, at, None, (*before, measurement))
    for tried in _newest(session, AttemptRow, candidate_id, task_id, MOST_TRIALS):
        attempt = Attempt.model_validate(tried.record)
        known = found.get(tried.run_id)
        later, at = ((), in_utc(tried.recorded_at)) if known is None else (known.measurements, known.at)
        screened = () if attempt.measurement is None else (attempt.measurement,)
        found[tried.run_id] = Trial(tried.run_id, at, attempt, (*screened, *later))
    by_hand = [_trial_by_hand(row) for row in _newest(session, EvaluationRow, candidate_id, task_id, MOST_TRIALS)]
    newest_first = sorted([*found.values(), *by_hand], key=lambda trial: trial.at, reverse=True)
    return tuple(newest_first[:MOST_TRIALS])


def _trial_by_hand(row: EvaluationRow) -> Trial:
    attempt = Attempt.model_validate(row.record)
    measured = () if attempt.measurement is None else (attempt.measurement,)
    return Trial(None, in_utc(row.recorded_at), attempt, measured)


def _gates(session: Session, candidate_id: str, task_id: str) -> GateDecision | None:
    found = [
        GateDecision(row.run_id, in_utc(row.recorded_at), PromotionDecision.model_validate(row.record))
        for row in _newest(session, PromotionRow, candidate_id, task_id, MOST_TRIALS)
    ]
    earned = (each for each in found if all(gate.name != UNCHANGED for gate in each.decision.gates))
    return next(earned, found[0] if found else None)


def _builds(session: Session, run_id: str) -> tuple[str, ...]:
    rows = select(BuildRow.build_id).where(BuildRow.run_id == run_id).order_by(BuildRow.sequence.desc())
    return tuple(session.scalars(rows.limit(_MOST_BUILDS)))


def _newest(session: Session, kind: type[F], candidate_id: str, task_id: str, limit: int) -> list[F]:
    statement: Select[F] = select(kind).where(kind.candidate_id == candidate_id, kind.task_id == task_id)
    return list(session.scalars(statement.order_by(kind.sequence.desc()).limit(limit)))
