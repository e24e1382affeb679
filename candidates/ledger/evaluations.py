"""Evaluations: what is last known of each candidate of a task, by a person or in any run."""

from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.ledger.latest_words import Evaluation, latest_words
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import EvaluationRow


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
        with Session(self._ledger.engine) as session:
            return latest_words(session, task_id)
