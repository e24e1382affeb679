"""proposals_of: who proposed a candidate, in any run or by hand."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.candidate import Proposal
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow, EvaluationRow


def proposals_of(ledger: Ledger, candidate_id: str) -> tuple[Proposal, ...]:
    """Each different proposal once, in the order in which they were tried. `candidate_id` is whole."""
    found: list[Proposal] = []
    with Session(ledger.engine) as session:
        for kind in (AttemptRow, EvaluationRow):
            records = session.scalars(
                select(kind.record).where(kind.candidate_id == candidate_id).order_by(kind.sequence)
            )
            for record in records:
                proposal = Attempt.model_validate(record).proposal
                if proposal not in found:
                    found.append(proposal)
    return tuple(found)
