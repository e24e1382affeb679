"""latest_words: what is last known of the candidates of a task, from the facts in an open session."""

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import Select, func, select
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.ledger.tables import AttemptRow, EvaluationRow, MeasurementRow, in_utc
from candidates.measurement import Measurement

F = TypeVar("F", AttemptRow, MeasurementRow, EvaluationRow)


class Evaluation(NamedTuple):
    attempt: Attempt
    evaluated_at: datetime
    run_id: str | None
    """The last that tried it; None: only people did."""


def latest_words(session: Session, task_id: str, candidate_ids: Sequence[str] | None = None) -> tuple[Evaluation, ...]:
    """On each candidate, or on each of `candidate_ids` (databases bound how many they may be), with its latest
    measurement. What a person asked for counts like what a run did, until something newer is known."""
    latest: dict[str, Evaluation] = {}
    for row in session.scalars(_newest(AttemptRow, task_id, candidate_ids)):
        latest[row.candidate_id] = Evaluation(Attempt.model_validate(row.record), in_utc(row.recorded_at), row.run_id)
    for measured in session.scalars(_newest(MeasurementRow, task_id, candidate_ids)):
        if (known := latest.get(measured.candidate_id)) is not None:
            measurement = Measurement.model_validate(measured.record)
            attempt = known.attempt.model_copy(update={"measurement": measurement})
            measured_at = in_utc(measured.recorded_at)
            run_id = measured.run_id if measured_at >= known.evaluated_at else known.run_id
            latest[measured.candidate_id] = Evaluation(attempt, max(measured_at, known.evaluated_at), run_id)
    for by_hand in session.scalars(_facts(EvaluationRow, task_id, candidate_ids)):
        attempt, at = Attempt.model_validate(by_hand.record), in_utc(by_hand.recorded_at)
        known = latest.get(by_hand.candidate_id)
        if known is not None and at < known.evaluated_at:
            continue
        is_known_better = known is not None and known.attempt.measurement and not attempt.measurement
        if attempt.verdict.outcome != "accepted" or not is_known_better:
            latest[by_hand.candidate_id] = Evaluation(attempt, at, None if known is None else known.run_id)
    return tuple(latest.values())


def _facts(kind: type[F], task_id: str, candidate_ids: Sequence[str] | None) -> Select[F]:
    statement = select(kind).where(kind.task_id == task_id).order_by(kind.sequence)
    return statement if candidate_ids is None else statement.where(kind.candidate_id.in_(candidate_ids))


def _newest(kind: type[F], task_id: str, candidate_ids: Sequence[str] | None) -> Select[F]:
    """One of each candidate: a kernel that is tried again every night has many."""
    newest = _facts(kind, task_id, candidate_ids).order_by(None).with_only_columns(func.max(kind.sequence))
    return select(kind).where(kind.sequence.in_(newest.group_by(kind.candidate_id))).order_by(kind.sequence)
