"""TracedRequest: one request as production saw it, whatever format recorded it."""

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedRequest:
    arrival_s: float
    """Seconds since the start of the trace."""
    prompt_tokens: int
    output_tokens: int
    workload_class: str
    """`coding`, `chat`, or whatever the user calls the traffic of this file."""
    prefix_blocks: tuple[int, ...] = ()
    """Ids of the prompt's blocks of `block_tokens` tokens; equal ids mean an equal prefix up to and including the
    block. Empty: the trace does not say, so no reuse is assumed."""
    session: str | None = None


@dataclass(slots=True, kw_only=True)
class ReadCounts:
    """Rows read = rows kept + rows dropped by reason, always."""

    read: int = 0
    kept: int = 0
    dropped: dict[str, int] = field(default_factory=dict)

    def drop(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


class TraceError(Exception):
    """The file cannot be used; the user's file is at fault. The message has file, line and next step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestTrace:
    """A whole trace in memory, sorted by arrival."""

    requests: list[TracedRequest]
    counts: ReadCounts
    format: str
    block_tokens: int | None
    """Tokens a prefix block holds, None where the trace has no prefix identity."""
    digest: str
    """sha256 of the files' bytes: what exactly was read."""
