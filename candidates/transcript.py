"""Transcript: the dialogue with language models that wrote a candidate."""

from candidates.record import Record


class Turn(Record):
    """One call to a model."""

    call_id: str
    endpoint: str
    purpose: str
    """What the agent asked for: a kernel, a repair."""
    request: str
    """Blob of the request, keys redacted."""
    answer: str
    """Blob of the completion, keys redacted."""
    usd: float | None
    """None for an endpoint without a price."""


class Transcript(Record):
    """`Proposal.transcript` is the digest of its JSON in the blob store."""

    turns: tuple[Turn, ...]
