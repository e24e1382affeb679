"""Counters: what a runtime counted of its kernels, as its process reports it or `write_counters` wrote it."""

import os
import stat
from pathlib import Path

from pydantic import Field, ValidationError

from candidates.record import Record

MOST_BYTES = 1 << 24
"""A runtime writes some kB for each kernel."""


class CountersUnreadable(Exception):
    """The file is not what a runtime writes."""


class KernelCalls(Record):
    """Of one kernel."""

    op: str = ""
    hits: int = Field(ge=0, default=0)
    misses: int = Field(ge=0, default=0)
    miss_reasons: dict[str, int] = Field(default_factory=dict)
    missed_shapes: dict[str, int] = Field(default_factory=dict)
    """Of `shape not won` alone."""
    shapes: dict[str, int] = Field(default_factory=dict)
    shadow: dict[str, int] = Field(default_factory=dict)
    errors: int = Field(ge=0, default=0)
    switched_off: str | None = None

    @property
    def is_sound(self) -> bool:
        return self.switched_off is None and not self.shadow.get("disagreed") and not self.shadow.get("failed")


class Counters(Record):
    build_id: str
    obstacle: str | None
    failures: dict[str, str]
    kernels: dict[str, KernelCalls]


def read_counters(path: Path) -> Counters:
    """Raises CountersUnreadable."""
    try:
        return Counters.model_validate_json(_read(path))
    except OSError as error:
        raise CountersUnreadable(f"{path} cannot be read: {error.strerror}") from error
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(map(str, first["loc"]))
        raise CountersUnreadable(f"{path} is no document of a build's counters: {place} {first['msg']}") from error


def _read(path: Path) -> bytes:
    # Does not wait for the other end of a pipe.
    with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NONBLOCK)) as file:
        status = os.fstat(file.fileno())
        if not stat.S_ISREG(status.st_mode):
            raise CountersUnreadable(f"{path} is no plain file")
        content = file.read(MOST_BYTES + 1)
    if len(content) > MOST_BYTES:
        raise CountersUnreadable(f"{path} has more than {MOST_BYTES} bytes")
    return content
