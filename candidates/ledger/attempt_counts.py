"""count_attempts: how the attempts of a run went, without reading them."""

from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow


def count_attempts(ledger: Ledger, run_id: str) -> Mapping[str, int]:
    """By outcome, rejections by reason: `accepted`, `rejected: wrong_values`; most frequent first."""
    reason = AttemptRow.record["verdict"]["reason"].as_string()
    rows = (
        select(AttemptRow.outcome, reason, func.count())
        .where(AttemptRow.run_id == run_id)
        .group_by(AttemptRow.outcome, reason)
    )
    with Session(ledger.engine) as session:
        counts = {f"{outcome}: {why}" if why else outcome: number for outcome, why, number in session.execute(rows)}
    return dict(sorted(counts.items(), key=lambda each: (-each[1], each[0])))
