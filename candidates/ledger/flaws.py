"""Flaws: what was found wrong with kernels after they had won, by people or by a run's look at the live build.

The one answer to whether a kernel may go on being served, shipped and proposed.
"""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.ledger.tables import StageRow
from candidates.run import LIVE_CHECKS, LiveChecks
from candidates.serving_build.build import Build


class Flaws:
    def __init__(self, ledger: Ledger) -> None:
        """As the ledger is now."""
        self._retractions = Retractions(ledger)
        rows = select(StageRow.record).where(StageRow.stage == LIVE_CHECKS).order_by(StageRow.sequence)
        with Session(ledger.engine) as session:
            checks = [LiveChecks.model_validate(record) for record in session.scalars(rows)]
        self._wrong: dict[str, str] = {}
        for kernel in (kernel for check in checks for kernel in check.wrong):
            self._wrong.setdefault(kernel.candidate_id, kernel.reason)

    def of(self, candidate_id: str) -> str | None:
        """In words; None: nothing is known against the kernel."""
        retraction = self._retractions.of(candidate_id)
        return self._wrong.get(candidate_id) if retraction is None else f"retracted: {retraction.reason}"

    def first_in(self, build: Build) -> str | None:
        """Kernel and flaw, in words; None: nothing is known against any of its kernels."""
        found = ((entry, self.of(entry.id)) for entry in build.manifest.kernels)
        return next((f"{entry.op} {entry.id[:12]}: {flaw}" for entry, flaw in found if flaw is not None), None)
