"""latest_promotion: the newest kernel that passed its gates for a task, whichever run or tune found it."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.ledger.tables import PromotionRow
from candidates.promotion import PromotionDecision


class Promoted(NamedTuple):
    run_id: str
    decision: PromotionDecision


def latest_promotion(ledger: Ledger, task_id: str) -> Promoted | None:
    """Retracted kernels are left out."""
    rows = select(PromotionRow).where(PromotionRow.task_id == task_id).order_by(PromotionRow.sequence.desc())
    with Session(ledger.engine) as session:
        found = [Promoted(row.run_id, PromotionDecision.model_validate(row.record)) for row in session.scalars(rows)]
    retractions = Retractions(ledger)
    passed = (each for each in found if each.decision.is_promoted)
    return next((each for each in passed if retractions.of(each.decision.candidate_id) is None), None)
