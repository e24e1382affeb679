"""Transcript: the dialogue that a candidate came from, as a list of model calls whose texts are blobs.

It holds no text itself: `request` is the blob of what was asked (`ModelRequest`), `answer` that of what came back
(`Completion`), both with keys redacted.
"""

from typing import Literal

from candidates.record import Record

Purpose = Literal["draft", "novelty", "repair", "diagnosis", "improve"]
"""`draft`: a first kernel; `novelty`: one different in kind; `diagnosis`: why a kernel is as slow as it is, no code;
`improve`: a faster version of one."""


class Turn(Record):
    """One model call."""

    purpose: Purpose
    is_second_try: bool = False
    """The answer before it held no kernel that could be used."""
    call_id: str
    endpoint: str
    request: str
    answer: str
    usd: float | None
    """None for an endpoint without a price."""


class Transcript(Record):
    """All calls that led to one proposal, in their order; a diagnosis is in those of all kernels made from it."""

    turns: tuple[Turn, ...]
