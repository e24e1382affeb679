"""Approvals: which builds were made live, by whom, as the ledger knows it."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.database import commit_in_order
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import ApprovalRow
from candidates.serving_build.builds import Approval


class Approvals:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(self, approval: Approval) -> None:
        """Unless it is there already: it tells its moment."""
        build_id, record = approval.build_id or "", approval.model_dump(mode="json")
        with Session(self._ledger.engine) as session, session.begin():
            commit_in_order(session, f"approvals of {build_id}")
            known = session.scalars(select(ApprovalRow.record).where(ApprovalRow.build_id == build_id)).all()
            if record not in known:
                session.add(ApprovalRow(build_id=build_id, record=record))

    def of(self, build_id: str) -> tuple[Approval, ...]:
        """Oldest first."""
        statement = select(ApprovalRow.record).where(ApprovalRow.build_id == build_id).order_by(ApprovalRow.sequence)
        with Session(self._ledger.reader) as session:
            return tuple(Approval.model_validate(record) for record in session.scalars(statement))
