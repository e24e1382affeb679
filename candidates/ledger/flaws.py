"""Flaws: what was found wrong with kernels after they had won, by people or by a run's look at the live build."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.ledger.tables import StageRow
from candidates.run import LIVE_CHECKS, LiveChecks


class Flaws:
    def __init__(self, ledger: Ledger) -> None:
        """As the ledger is now."""
        self._retractions = Retractions(ledger)
        rows = select(StageRow.record).where(StageRow.stage == LIVE_CHECKS).order_by(StageRow.sequence)
        with Session(ledger.engine) as session:
            checks = [LiveChecks.model_validate(record) for record in session.scalars(rows)]
        self._wrong = {
            kernel.candidate_id: kernel.reason
            for check in checks
            for kernel in check.kernels
            if kernel.outcome == "wrong"
        }

    def of(self, candidate_id: str) -> str | None:
        """In words; None: nothing is known against the kernel."""
        retraction = self._retractions.of(candidate_id)
        return self._wrong.get(candidate_id) if retraction is None else f"retracted: {retraction.reason}"
