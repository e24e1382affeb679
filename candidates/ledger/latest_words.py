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


def latest_words(session: Session, task_id: str, candidate_id: str | None = None) -> tuple[Evaluation, ...]:
    """On each candidate, with its latest measurement; `candidate_id`: on this one alone."""
    return _latest_words(session, task_id, None if candidate_id is None else [candidate_id])


def latest_words_on(session: Session, task_id: str, candidate_ids: Sequence[str]) -> tuple[Evaluation, ...]:
    """On these; databases bound how many they may be."""
    return _latest_words(session, task_id, candidate_ids)


def _latest_words(session: Session, task_id: str, candidate_ids: Sequence[str] | None) -> tuple[Evaluation, ...]:
    latest: dict[str, Evaluation] = {}
    for row in session.scalars(_newest(AttemptRow, task_id, candidate_ids)):
        latest[row.candidate_id] = Evaluation(Attempt.model_validate(row.record), in_utc(row.recorded_at), row.run_id)
    for measured in session.scalars(_newest(MeasurementRow, task_id, candidate_ids)):
        if (known := latest.get(measured.candidate_id)) is not None:
            measurement = Measurement.model_validate(measured.record)
            attempt = known.attempt.model_copy(update={"measurement": measurement})
            latest[measured.candidate_id] = Evaluation(attempt, in_utc(measured.recorded_at), measured.run_id)
    for by_hand in session.scalars(_facts(EvaluationRow, task_id, candidate_ids)):
        attempt = Attempt.model_validate(by_hand.record)
        known = latest.get(by_hand.candidate_id)
        is_known_better = known is not None and known.attempt.measurement and not attempt.measurement
        if attempt.verdict.outcome != "accepted" or not is_known_better:
            run_id = None if known is None else known.run_id
            latest[by_hand.candidate_id] = Evaluation(attempt, in_utc(by_hand.recorded_at), run_id)
    return tuple(latest.values())


def _facts(kind: type[F], task_id: str, candidate_ids: Sequence[str] | None) -> Select[F]:
    statement = select(kind).where(kind.task_id == task_id).order_by(kind.sequence)
    return statement if candidate_ids is None else statement.where(kind.candidate_id.in_(candidate_ids))


def _newest(kind: type[F], task_id: str, candidate_ids: Sequence[str] | None) -> Select[F]:
    """One of each candidate: a kernel that is tried again every night has many."""
    newest = _facts(kind, task_id, candidate_ids).order_by(None).with_only_columns(func.max(kind.sequence))
    return select(kind).where(kind.sequence.in_(newest.group_by(kind.candidate_id))).order_by(kind.sequence)
