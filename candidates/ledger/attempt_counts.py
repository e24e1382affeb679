"""count_attempts: how the attempts of a run went, without reading them where the database can."""

from collections import Counter
from collections.abc import Mapping

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow


def count_attempts(ledger: Ledger, run_id: str) -> Mapping[str, int]:
    """By outcome, rejections by reason: `accepted`, `rejected: wrong_values`; most frequent first."""
    with Session(ledger.engine) as session:
        # PostgreSQL looks into no JSON that holds a NUL, which sources and logs may.
        is_sqlite = session.get_bind().dialect.name == "sqlite"
        counts = _counted(session, run_id) if is_sqlite else _read(session, run_id)
    named = {f"{outcome}: {why}" if why else outcome: number for (outcome, why), number in counts.items()}
    return dict(sorted(named.items(), key=lambda each: (-each[1], each[0])))


def _counted(session: Session, run_id: str) -> Mapping[tuple[str, str | None], int]:
    reason = AttemptRow.record["verdict"]["reason"].as_string()
    rows = (
        select(AttemptRow.outcome, reason, func.count())
        .where(AttemptRow.run_id == run_id)
        .group_by(AttemptRow.outcome, reason)
    )
    return {(outcome, why): number for outcome, why, number in session.execute(rows)}


def _read(session: Session, run_id: str) -> Mapping[tuple[str, str | None], int]:
    rows = select(AttemptRow.outcome, AttemptRow.record).where(AttemptRow.run_id == run_id)
    some = session.execute(rows.execution_options(yield_per=100))
    return Counter((outcome, record["verdict"].get("reason")) for outcome, record in some)
