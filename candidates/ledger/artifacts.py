"""artifacts_of: what was built for a task."""

from collections.abc import Mapping

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import ArtifactRow


def artifacts_of(ledger: Ledger, task_id: str) -> Mapping[str, str]:
    """Blobs of the artifacts built last, by candidate id; also of those that were pruned since."""
    statement = select(ArtifactRow.candidate_id, ArtifactRow.blob).where(ArtifactRow.task_id == task_id)
    with Session(ledger.reader) as session:
        return {row.candidate_id: row.blob for row in session.execute(statement.order_by(ArtifactRow.sequence))}
