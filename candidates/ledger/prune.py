"""prune_blobs, prune_progress: what a ledger keeps of candidates that won nothing, and of runs that have ended.

Facts stay. What goes is blobs, of which a row says so, and lines of progress. It is safe beside workers: nothing goes
that is younger than the oldest run that has not ended, and a blob that somebody wants again meanwhile stays.
"""

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta

from sqlalchemy import delete, func, insert, select
from sqlalchemy.orm import Session

from candidates.ledger.blobs import BlobError, BlobStore, StoredBlob
from candidates.ledger.ledger import Ledger
from candidates.ledger.named_blobs import blobs_of_dialogue, named_blobs, records
from candidates.ledger.standing_rows import FoundWrongRow
from candidates.ledger.tables import (
    ArtifactRow,
    AttemptRow,
    EvaluationRow,
    ProgressRow,
    PromotionRow,
    PrunedBlobRow,
    RetractionRow,
    RunEndRow,
    RunRow,
    SearchEndRow,
    in_utc,
)
from candidates.record import Record

CLOCKS_APART = timedelta(hours=1)
"""At most, of the database and of where blobs lie."""
_ROWS_AT_ONCE = 500


class PrunedBlobs(Record):
    blobs: int
    size_bytes: int
    held_by: tuple[str, ...]
    """Runs that have not ended and began before the time asked for: nothing younger than the first of them went."""


def prune_blobs(
    ledger: Ledger, blobs: BlobStore, *, before: datetime, shipped: Collection[str], dry_run: bool
) -> PrunedBlobs:
    """Those last put before then of which no evidence needs any.

    Evidence are artifacts and dialogues of candidates that were promoted, won a search, were retracted or found wrong,
    or are among `shipped`, and of those that they were made from.
    """
    with Session(ledger.engine) as session:
        open_runs = _open_runs(session)
        held_by = tuple(run_id for run_id, began in open_runs if began - CLOCKS_APART < before)
        until_s = min([before, *(began - CLOCKS_APART for _, began in open_runs)]).timestamp()
        old = {blob.digest: blob for blob in blobs.list() if blob.changed_s < until_s}
        kept = _needed(session, blobs, set(shipped), old.keys()) if old else set()
        named = set(named_blobs(session)) if old else set()
    going = [blob for digest, blob in sorted(old.items()) if digest not in kept]
    if not dry_run:
        going = list(_remove(ledger, blobs, going, named))
    return PrunedBlobs(blobs=len(going), size_bytes=sum(blob.size_bytes for blob in going), held_by=held_by)


def prune_progress(ledger: Ledger, *, before: datetime, dry_run: bool) -> int:
    """Lines of runs that ended before then; how many."""
    ended = select(RunEndRow.run_id).where(RunEndRow.recorded_at < before)
    # The last line stays: SQLite would give its number to the next, which readers would take for one that they saw.
    last = select(func.max(ProgressRow.sequence)).scalar_subquery()
    going = (ProgressRow.run_id.in_(ended), ProgressRow.sequence < last)
    with Session(ledger.engine) as session, session.begin():
        lines = session.scalars(select(func.count()).select_from(ProgressRow).where(*going)).one()
        if lines and not dry_run:
            session.execute(delete(ProgressRow).where(*going).execution_options(synchronize_session=False))
    return lines


def _open_runs(session: Session) -> list[tuple[str, datetime]]:
    """With their beginnings, the oldest first."""
    statement = (
        select(RunRow.run_id, RunRow.recorded_at)
        .outerjoin(RunEndRow, RunEndRow.run_id == RunRow.run_id)
        .where(RunEndRow.run_id.is_(None))
        .order_by(RunRow.recorded_at)
    )
    return [(run_id, in_utc(began)) for run_id, began in session.execute(statement)]


def _needed(session: Session, blobs: BlobStore, shipped: set[str], old: Collection[str]) -> set[str]:
    """Blobs that evidence needs, and those of dialogues that stay for other reasons."""
    parents: dict[str, set[str]] = {}
    dialogues: dict[str, set[str]] = {}
    for kind in (AttemptRow, EvaluationRow):
        rows = session.execute(select(kind.candidate_id, kind.record).execution_options(yield_per=_ROWS_AT_ONCE))
        for candidate_id, record in rows:
            proposal = record["proposal"]
            parents.setdefault(candidate_id, set()).update(proposal["parents"])
            if (transcript := proposal.get("transcript")) is not None:
                dialogues.setdefault(transcript, set()).add(candidate_id)
    evidence = _with_ancestors(shipped | _told_of(session), parents)
    needed = {
        blob
        for blob, candidate_id in session.execute(select(ArtifactRow.blob, ArtifactRow.candidate_id))
        if candidate_id in evidence
    }
    for transcript, candidates in dialogues.items():
        if candidates & evidence or transcript not in old:
            needed.add(transcript)
            try:
                needed.update(blobs_of_dialogue(blobs, transcript))
            except (BlobError, ValueError):
                continue  # there is nothing of it to keep
    return needed


def _told_of(session: Session) -> set[str]:
    """Candidates that a decision or a flaw is recorded of."""
    found = {
        candidate_id
        for kind in (PromotionRow, RetractionRow, FoundWrongRow)
        for candidate_id in session.scalars(select(kind.candidate_id).distinct())
    }
    ends = records(session, SearchEndRow)
    return found | {end["candidate_id"] for end in ends if end["decision"] == "won" and end["candidate_id"]}


def _with_ancestors(candidates: set[str], parents: dict[str, set[str]]) -> set[str]:
    found, waiting = set(candidates), list(candidates)
    while waiting:
        new = parents.get(waiting.pop(), set()) - found
        found |= new
        waiting.extend(new)
    return found


def _remove(ledger: Ledger, blobs: BlobStore, going: list[StoredBlob], named: set[str]) -> Iterator[StoredBlob]:
    """Those that went."""
    for start in range(0, len(going), _ROWS_AT_ONCE):
        part = going[start : start + _ROWS_AT_ONCE]
        # Noted first: a blob that is gone without a word would be taken for lost.
        _note(ledger, {blob.digest for blob in part} & named)
        removed = [blob for blob in part if blobs.remove(blob)]
        with Session(ledger.engine) as session, session.begin():
            back = {blob.digest for blob in part} - {blob.digest for blob in removed}
            session.execute(delete(PrunedBlobRow).where(PrunedBlobRow.blob.in_(back)))
        yield from removed


def _note(ledger: Ledger, digests: set[str]) -> None:
    with Session(ledger.engine) as session, session.begin():
        known = set(session.scalars(select(PrunedBlobRow.blob).where(PrunedBlobRow.blob.in_(digests))))
        if new := sorted(digests - known):
            session.execute(insert(PrunedBlobRow), [{"blob": digest} for digest in new])
