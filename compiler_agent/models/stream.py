"""follow: reads a reply's events to the end, within the call's time, whatever the endpoint sends."""

import time
from collections.abc import Callable, Iterable
from typing import TypeVar

E = TypeVar("E")


class MalformedStream(Exception):
    """An event is not of the shape that its API promises, or the reply is still coming when the call's time is up."""


class Stopwatch:
    def __init__(self) -> None:
        self._started = time.monotonic()

    @property
    def passed_s(self) -> float:
        return time.monotonic() - self._started


def follow(events: Iterable[E], take: Callable[[E], None], stopwatch: Stopwatch, timeout_s: float) -> None:
    """How long one event may take is the connection's read timeout; this bounds their sum.

    Raises MalformedStream, and what the SDK raises for the connection and for lines that are no JSON.
    """
    for event in events:
        try:
            take(event)
        # The SDKs hand on events unchecked: what is missing shows where it is read.
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            raise MalformedStream(f"an event of another shape: {event}") from error
        if stopwatch.passed_s > timeout_s:
            raise MalformedStream(f"still answering after {timeout_s:.0f} s")
