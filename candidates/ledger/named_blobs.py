"""named_blobs: the digests of every blob that a fact names, or a dialogue that one names."""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.blobs import BlobStore
from candidates.ledger.tables import ArtifactRow, AttemptRow, EvaluationRow, Fact, ModelCallEndRow, ModelCallRow
from candidates.transcript import Transcript


def named_blobs(session: Session) -> Iterator[str]:
    """Not those within dialogues. Some come more than once."""
    yield from session.scalars(select(ArtifactRow.blob))
    yield from transcripts(session)
    for kind, name in ((ModelCallRow, "request"), (ModelCallEndRow, "answer")):
        yield from filter(None, (record.get(name) for record in records(session, kind)))


def transcripts(session: Session) -> Iterator[str]:
    for kind in (AttemptRow, EvaluationRow):
        yield from filter(None, (record["proposal"].get("transcript") for record in records(session, kind)))


def blobs_of_dialogue(blobs: BlobStore, transcript: str) -> Iterator[str]:
    """Raises BlobError, and ValueError for what is no dialogue."""
    for turn in Transcript.model_validate_json(blobs.get(transcript)).turns:
        yield turn.request
        yield turn.answer


def records(session: Session, kind: type[Fact]) -> Iterator[dict[str, Any]]:
    """Whole: PostgreSQL looks for no value in a record that has a NUL somewhere."""
    return iter(session.scalars(select(kind.record).execution_options(yield_per=500)))
