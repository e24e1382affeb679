"""What the server does with one call."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    """A tool call that the model makes."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A reply, streamed in pieces."""

    text: str = "yes, of course"
    calls: tuple[Call, ...] = ()
    thinking: str = ""
    stop: Literal["end", "max_tokens", "context_window", "refusal", "filter"] = "end"
    input_tokens: int | None = None
    output_tokens: int | None = None
    """None: a token for every four characters, of output as far as the request allows."""
    first_after_s: float = 0.0
    """Before the status line."""
    piece_after_s: float = 0.0
    """Before each event."""
    keep_alive_s: float = 0.0
    """After the status line: comments, as servers send while a model thinks."""
    cut_after_events: int | None = None
    cut_how: Literal["abruptly", "politely"] = "abruptly"
    """Politely: the HTTP response ends well, the reply does not."""
    garble_event: int | None = None
    """This event is broken JSON."""
    with_usage: bool = True
    counts: Mapping[str, object] | None = None
    """Sent for the counts of these names, in the API's own words, in place of what is billed; None: left out."""
    error_event: str | None = None
    """An error of this type in place of the second event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fail:
    """An error status; nothing is billed."""

    status: int
    kind: str = "invalid_request_error"
    message: str = "no"
    retry_after: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class HangUp:
    """The connection closes before any answer."""


Behaviour = Say | Fail | HangUp


@dataclass(frozen=True, slots=True, kw_only=True)
class Billed:
    input_tokens: int
    cache_read_tokens: int
    cache_write_tokens: int
    output_tokens: int
