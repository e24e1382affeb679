"""What a benchmark and its PyTorch processes say to each other over two pipes.

A message is one `Command` byte and its payload; the reply is one `DONE` byte, or `FAILED` and a pickled text. Both ends
are trusted, so pickle is fine here.
"""

import os
import pickle
import struct
from dataclasses import dataclass
from enum import IntEnum

from candidates.kernel_runner import Call
from kernel_sandbox.arena import Segment

RUN_PAYLOAD = struct.Struct("<IIII")
LENGTH = struct.Struct("<Q")
DONE, FAILED = b"\x01", b"\x02"


class Command(IntEnum):
    RUN = 1
    """Payload: RUN_PAYLOAD (session, first, count, flags of CallMode on a GPU). The only command that is timed."""
    OPEN = 2
    """Payload: pickled `Opening`."""
    LAY_OUT = 3
    """Payload: pickled `Layout`."""
    CLOSE = 4
    """Payload: pickled number of the session."""
    PIN = 5
    """Payload: pickled core number, or None for all cores."""
    CAPTURE = 6
    """On a GPU. Payload: pickled (session, first, count, flags of CallMode)."""
    COPY_IN = 7
    """On a GPU. Payload: pickled number of the session."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    session: int
    task_json: str
    reference: str
    """What is called; the task has the shapes."""
    segment_paths: dict[Segment, str]
    is_compiled: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    session: int
    axes: dict[str, int]
    calls: tuple[Call, ...]


def read_exactly(descriptor: int, size: int) -> bytes:
    """Raises EOFError when the other end is gone."""
    parts = b""
    while len(parts) < size:
        part = os.read(descriptor, size - len(parts))
        if not part:
            raise EOFError
        parts += part
    return parts


def read_pickled(descriptor: int) -> object:
    (length,) = LENGTH.unpack(read_exactly(descriptor, LENGTH.size))
    return pickle.loads(read_exactly(descriptor, length))


def pickled(content: object) -> bytes:
    body = pickle.dumps(content)
    return LENGTH.pack(len(body)) + body
