"""How a streamed reply is read: within the call's time, and whatever shape its events have."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

import httpx2

E = TypeVar("E")


class MalformedStream(Exception):
    """An event is not of the shape that its API promises."""


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._started


def follow(events: Iterable[E], take: Callable[[E], None]) -> None:
    """To the end. Raises MalformedStream, and what the SDK raises for the connection and for lines that are no JSON."""
    for event in events:
        try:
            take(event)
        # The SDKs hand on events unchecked: what is missing shows where it is read.
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise MalformedStream(f"an event of another shape: {event}") from error


def _note_deadline(request: httpx2.Request) -> None:
    request.extensions["deadline"] = time.monotonic() + request.extensions["timeout"]["read"]


def _limit_body(response: httpx2.Response) -> None:
    assert isinstance(response.stream, httpx2.SyncByteStream)
    response.stream = _LimitedBody(response.stream, response.request)


CALL_TIMEOUT_HOOKS: dict[str, list[Callable[..., None]]] = {"request": [_note_deadline], "response": [_limit_body]}
"""For an `httpx2.Client`: a request's read timeout also bounds its whole body.

By itself it bounds each read, and an endpoint that sends a keep-alive comment now and then would be waited for
forever. The last read may still begin just before the end, so a call takes at most twice its time.
"""


class _LimitedBody(httpx2.SyncByteStream):
    def __init__(self, stream: httpx2.SyncByteStream, request: httpx2.Request) -> None:
        self._stream, self._request = stream, request

    def __iter__(self) -> Iterator[bytes]:
        for chunk in self._stream:
            yield chunk
            if time.monotonic() > self._request.extensions["deadline"]:
                raise httpx2.ReadTimeout("still answering when the call's time was up", request=self._request)

    def close(self) -> None:
        self._stream.close()
