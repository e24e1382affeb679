"""Evaluations: what is last known of each candidate of a task, by a person or in any run."""

from datetime import datetime
from typing import NamedTuple, TypeVar

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.ledger.ledger import Ledger, in_utc
from candidates.ledger.tables import AttemptRow, EvaluationRow, MeasurementRow
from candidates.measurement import Measurement

F = TypeVar("F", AttemptRow, MeasurementRow, EvaluationRow)


class Evaluation(NamedTuple):
    attempt: Attempt
    evaluated_at: datetime


class Evaluations:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(self, task_id: str, attempt: Attempt) -> None:
        """What a person asked for; what a run does is an attempt of that run."""
        record = attempt.model_dump(mode="json")
        candidate_id = attempt.proposal.candidate.id
        self._ledger.insert(EvaluationRow(task_id=task_id, candidate_id=candidate_id, record=record))

    def of(self, task_id: str) -> tuple[Evaluation, ...]:
        """The latest word on each candidate of a task, with its latest measurement."""
        latest: dict[str, Evaluation] = {}
        with Session(self._ledger.engine) as session:
            for row in session.scalars(_of_task(AttemptRow, task_id)):
                latest[row.candidate_id] = Evaluation(Attempt.model_validate(row.record), in_utc(row.recorded_at))
            for measured in session.scalars(_of_task(MeasurementRow, task_id)):
                if (known := latest.get(measured.candidate_id)) is not None:
                    measurement = Measurement.model_validate(measured.record)
                    attempt = known.attempt.model_copy(update={"measurement": measurement})
                    latest[measured.candidate_id] = Evaluation(attempt, in_utc(measured.recorded_at))
            for by_hand in session.scalars(_of_task(EvaluationRow, task_id)):
                attempt = Attempt.model_validate(by_hand.record)
                known = latest.get(by_hand.candidate_id)
                is_known_better = known is not None and known.attempt.measurement and not attempt.measurement
                if attempt.verdict.outcome != "accepted" or not is_known_better:
                    latest[by_hand.candidate_id] = Evaluation(attempt, in_utc(by_hand.recorded_at))
        return tuple(latest.values())


def _of_task(kind: type[F], task_id: str) -> Select[F]:
    return select(kind).where(kind.task_id == task_id).order_by(kind.sequence)
