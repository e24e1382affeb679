"""read_dialogue: the calls to language models that wrote a candidate, as readers of the page see them.

The blobs are the models' side's, which this package does not import; of their fields it takes what it shows, and of
their texts no more than a page has room for. Whole they are behind the links.
"""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from candidates.ledger.blobs import BlobError, BlobStore
from candidates.ledger.object_blobs import BlobsAway
from candidates.transcript import Transcript, Turn
from leaderboard.written_bytes import written_bytes

MOST_TURNS = 60
MOST_MESSAGES = 40
"""Of one request, the first of them."""
_MOST_TEXT_BYTES = 12_000
_MOST_BYTES = 180_000
"""Of all texts together."""
_LEAST_BYTES = 200

Part = Literal["request", "answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    speaker: str
    text: str
    is_whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    turn: Turn
    model: str
    """As its endpoint names it."""
    seconds: float | None
    prefix: Words | None
    """What many requests share."""
    request: tuple[Words, ...]
    answer: Words
    problem: str
    """Why its texts are not here; empty: they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialogue:
    calls: tuple[Call, ...]
    left_out: int
    problem: str = ""


class _Room:
    def __init__(self, size_bytes: int) -> None:
        self._left = size_bytes

    def take(self, speaker: str, text: str) -> Words:
        most = min(_MOST_TEXT_BYTES, max(self._left, _LEAST_BYTES))
        shown = text[:most]
        while (size := written_bytes(shown)) > most:
            shown = shown[: int(len(shown) * most / size * 0.95)]
        self._left -= size
        return Words(speaker=speaker, text=shown, is_whole=len(shown) == len(text))


def read_dialogue(blobs: BlobStore, digest: str, redact: Callable[[str], str]) -> Dialogue:
    """`redact` takes keys out of a text. What cannot be read is said in `problem`."""
    try:
        transcript = Transcript.model_validate_json(blobs.get(digest))
    except _UNREADABLE:
        return Dialogue(calls=(), left_out=0, problem=_MISSING)
    room = _Room(_MOST_BYTES)
    shown = transcript.turns[:MOST_TURNS]
    return Dialogue(
        calls=tuple(_read_call(blobs, turn, redact, room) for turn in shown),
        left_out=len(transcript.turns) - len(shown),
    )


_MISSING = (
    "The dialogue is not where this ledger keeps such files: it was removed, lies on another machine, or the store "
    "does not answer now."
)
_UNREADABLE = (BlobError, BlobsAway, ValueError, RecursionError)
"""The last: nested too deep to be of ours."""


def read_part(blobs: BlobStore, digest: str, number: int, part: Part, redact: Callable[[str], str]) -> str | None:
    """The whole JSON of one side of a call, numbered from 0; None: there is none."""
    try:
        turns = Transcript.model_validate_json(blobs.get(digest)).turns
        if not 0 <= number < len(turns):
            return None
        content = blobs.get(turns[number].request if part == "request" else turns[number].answer)
    except _UNREADABLE:
        return None
    return redact(content.decode(errors="replace"))


def _read_call(blobs: BlobStore, turn: Turn, redact: Callable[[str], str], room: _Room) -> Call:
    try:
        request, answer = (_object(blobs.get(digest)) for digest in (turn.request, turn.answer))
    except _UNREADABLE:
        nothing = Words(speaker="answer", text="", is_whole=True)
        return Call(turn=turn, model="", seconds=None, prefix=None, request=(), answer=nothing, problem=_MISSING)
    # Answers first: a reader wants those, and requests repeat each other.
    outcome = _as_object(answer.get("outcome"))
    said = room.take(f"answer: {_text(outcome.get('kind'))}", redact(_answer_text(outcome)))
    found = request.get("messages")
    messages = found if isinstance(found, list) else []
    asked = [
        room.take(_text(message.get("role")), redact(_message_text(message)))
        for message in map(_as_object, messages[:MOST_MESSAGES])
    ]
    if len(messages) > MOST_MESSAGES:
        asked.append(Words(speaker=f"{len(messages) - MOST_MESSAGES} more messages", text="", is_whole=False))
    return Call(
        turn=turn,
        model=_text(answer.get("model")),
        seconds=_seconds(answer.get("seconds")),
        prefix=room.take("prefix", redact(_text(request.get("prefix")))),
        request=tuple(asked),
        answer=said,
        problem="",
    )


def _answer_text(outcome: dict[str, Any]) -> str:
    beside = {"explanation": "held back", "problem": "broke off", "limit": "cut off at"}
    notes = [f"({words}: {_text(outcome.get(name))})" for name, words in beside.items() if outcome.get(name)]
    return "\n".join(part for part in (_message_text(outcome), *notes) if part)


def _message_text(message: dict[str, Any]) -> str:
    calls = message.get("tool_calls")
    called = [
        f"(calls {_text(call.get('name'))} with {_text(call.get('arguments_json'))})"
        for call in map(_as_object, calls if isinstance(calls, list) else ())
    ]
    return "\n".join(part for part in (_text(message.get("text")), _text(message.get("content")), *called) if part)


def _object(content: bytes) -> dict[str, Any]:
    return _as_object(json.loads(content))


def _as_object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _seconds(value: Any) -> float | None:
    # Compared as it is: JSON holds whole numbers that no float does.
    return float(value) if isinstance(value, int | float) and 0 <= value < 1e9 else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
