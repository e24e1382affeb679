"""Candidate: a kernel as it is judged, measured and shipped; Proposal: who proposed it and at what cost."""

import functools
from enum import StrEnum

from pydantic import Field

from candidates.record import Record, digest_of


class LanguageName(StrEnum):
    CPP = "cpp"
    TRITON = "triton"
    CUDA = "cuda"

    @property
    def file_ending(self) -> str:
        """Of a candidate's file."""
        return {"cpp": ".cpp", "triton": ".py", "cuda": ".cu"}[self.value]

    @property
    def comment_marker(self) -> str:
        """Of a comment that ends with its line."""
        return "#" if self is LanguageName.TRITON else "//"


class Candidate(Record):
    """The id is the hash of exactly these fields, so that two agents may propose one candidate."""

    language: LanguageName
    source: str = Field(min_length=1)
    entry: str = "kernel"
    prepare: str | None = None
    """Entry that repacks parameters once per session; None: the kernel reads parameters as they are."""
    launch_parameters: dict[str, int | float | str] = Field(default_factory=dict)
    build_flags: tuple[str, ...] = ()
    """Flags added to the language's recipe; the language refuses those that it does not know to be harmless."""

    @functools.cached_property
    def id(self) -> str:
        return digest_of(self.model_dump(mode="json"))


class Proposal(Record):
    """Where a candidate came from."""

    candidate: Candidate
    agent: str
    model: str | None = None
    """The endpoint that wrote it; None for an agent that asks none."""
    parents: tuple[str, ...] = ()
    """Ids of the candidates that it was made from."""
    note: str = ""
    """What changed and why, in the agent's words."""
    round_id: str = ""
    """The call of `propose` that it came from, by `Budget.round_id`."""
    transcript: str | None = None
    """Digest of the agent's dialogue, a `Transcript`, in the blob store."""
    cost_usd: float = Field(ge=0, default=0.0)
