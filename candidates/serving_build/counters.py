"""Counters: what a runtime counted of its kernels, as its process reports it or `write_counters` wrote it."""

import contextlib
import os
import stat
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
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


def counted_of(counters: Path, build_id: str, since_s: float = 0.0) -> tuple[Counters, ...]:
    """What processes that serve the build counted, as far as they have told since then; files that are none of a
    runtime's are passed over."""
    read = []
    for path in sorted(counters.glob("*.json")):
        with contextlib.suppress(CountersUnreadable, OSError):
            if path.stat().st_mtime >= since_s:
                read.append(read_counters(path))
    return tuple(counted for counted in read if counted.build_id == build_id)


def add_up(counted: Sequence[Counters]) -> Counters:
    """What processes that serve one build counted together; at least one."""
    kernels: dict[str, list[KernelCalls]] = {}
    for counters in counted:
        for candidate_id, calls in counters.kernels.items():
            kernels.setdefault(candidate_id, []).append(calls)
    return Counters(
        build_id=counted[0].build_id,
        obstacle=next((counters.obstacle for counters in counted if counters.obstacle is not None), None),
        failures={name: reason for counters in counted for name, reason in counters.failures.items()},
        kernels={candidate_id: sum_calls(calls[0].op, calls) for candidate_id, calls in kernels.items()},
    )


def sum_calls(op: str, calls: Sequence[KernelCalls]) -> KernelCalls:
    """Of one kernel in several processes, or in none; what was counted most comes first."""
    return KernelCalls(
        op=op,
        hits=sum(each.hits for each in calls),
        misses=sum(each.misses for each in calls),
        miss_reasons=_add(each.miss_reasons for each in calls),
        missed_shapes=_add(each.missed_shapes for each in calls),
        shapes=_add(each.shapes for each in calls),
        shadow=_add(each.shadow for each in calls),
        errors=sum(each.errors for each in calls),
        switched_off=next((each.switched_off for each in calls if each.switched_off is not None), None),
    )


def _add(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    total = Counter[str]()
    for each in counts:
        total.update(each)
    return dict(total.most_common())


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
