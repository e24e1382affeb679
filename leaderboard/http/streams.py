"""Streams: how many answers that never end by themselves may be open at once, and the form that their events have."""

from collections.abc import AsyncIterator

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

MOST_STREAMS = 32


class Streams:
    """For one event loop alone."""

    def __init__(self, most: int = MOST_STREAMS) -> None:
        self._most = most
        self.open = 0

    @property
    def are_full(self) -> bool:
        return self.open >= self._most

    def answer(self, events: AsyncIterator[str]) -> "EventStream":
        """Counts as open until it has been sent or the client has left. The caller has looked whether there is room."""
        self.open += 1
        return EventStream(events, self)


class EventStream(StreamingResponse):
    def __init__(self, events: AsyncIterator[str], streams: Streams) -> None:
        # X-Accel-Buffering: nginx would hold events back until its buffer is full.
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._streams = streams

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._streams.open -= 1


def write_event(name: str, text: str, number: int | None = None) -> str:
    """`number`: where a client that was cut off asks to go on."""
    # Splits at every end of line that a browser knows, so that no text can end an event or begin another.
    lines = "".join(f"data: {line}\n" for line in text.splitlines() or [""])
    return f"event: {name}\n" + ("" if number is None else f"id: {number}\n") + f"{lines}\n"


BEAT = ": beat\n\n"
"""A comment: it keeps proxies from closing the connection, and shows a client that has left."""
