"""latest_promotion: the newest kernel that passed its gates for a task, whichever run or tune found it;
earned_promotion: what a kernel that was only carried on had passed."""

from typing import NamedTuple

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.evaluations import Evaluations
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import PromotionRow
from candidates.promotion import UNCHANGED, PromotionDecision
from candidates.verdict import Rejected


class Promoted(NamedTuple):
    run_id: str
    decision: PromotionDecision


def latest_promotion(ledger: Ledger, task_id: str) -> Promoted | None:
    """Without kernels that were found wrong since, or that passed once and failed later."""
    rows = select(PromotionRow).where(PromotionRow.task_id == task_id).order_by(PromotionRow.sequence.desc())
    with Session(ledger.engine) as session:
        found = [Promoted(row.run_id, PromotionDecision.model_validate(row.record)) for row in session.scalars(rows)]
    newest = {each.decision.candidate_id: each for each in reversed(found)}
    flaws = Flaws(ledger)
    rejected = {
        attempt.proposal.candidate.id
        for attempt, *_ in Evaluations(ledger).of(task_id)
        if isinstance(attempt.verdict, Rejected)
    }
    for each in found:
        candidate_id = each.decision.candidate_id
        is_sound = newest[candidate_id].decision.is_promoted and candidate_id not in rejected
        if each.decision.is_promoted and is_sound and flaws.of(candidate_id) is None:
            return each
    return None


def earned_promotion(ledger: Ledger, decision: PromotionDecision) -> PromotionDecision:
    """Of a kernel that was only carried on: the latest that it earned before, with the gates of both; else itself."""
    if all(gate.name != UNCHANGED for gate in decision.gates):
        return decision
    rows = (
        select(PromotionRow.record)
        .where(PromotionRow.task_id == decision.task_id, PromotionRow.candidate_id == decision.candidate_id)
        .order_by(PromotionRow.sequence.desc())
    )
    with Session(ledger.engine) as session:
        found = [PromotionDecision.model_validate(record) for record in session.scalars(rows)]
    for each in found:
        if each.is_promoted and all(gate.name != UNCHANGED for gate in each.gates):
            return each.model_copy(update={"gates": (*each.gates, *decision.gates)})
    return decision
