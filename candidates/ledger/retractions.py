"""Retractions: flaws that were found in kernels after they had won; the evidence of the win stays."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import RetractionRow
from candidates.promotion import Retraction


class Retractions:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(self, retraction: Retraction) -> None:
        record = retraction.model_dump(mode="json")
        self._ledger.insert(RetractionRow(candidate_id=retraction.candidate_id, record=record))

    def of(self, candidate_id: str) -> Retraction | None:
        """The first one of a kernel."""
        found = select(RetractionRow.record).where(RetractionRow.candidate_id == candidate_id)
        with Session(self._ledger.reader) as session:
            record = session.scalars(found.order_by(RetractionRow.sequence).limit(1)).first()
        return None if record is None else Retraction.model_validate(record)
