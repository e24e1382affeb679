"""Arena: two shared-memory segments through which a judge and runners exchange tensors without copying.

`inputs` can be mapped writable by nobody but the judge, who mapped it before it was sealed. `outputs` is writable by
all. Neither can be resized: a runner that shrank a segment would kill the judge by SIGBUS.
"""

import fcntl
import mmap
import os
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch

CACHE_LINE_BYTES = 64
PAGE_BYTES = 4096
GUARD_BYTES = 256

_ADD_SEALS = 1033  # F_ADD_SEALS and the seals, from linux/fcntl.h; `fcntl` has no F_SEAL_FUTURE_WRITE in 3.11
_SEAL_SEAL, _SEAL_SHRINK, _SEAL_GROW, _SEAL_FUTURE_WRITE = 0x1, 0x2, 0x4, 0x10


class Segment(StrEnum):
    INPUTS = "inputs"
    OUTPUTS = "outputs"


@dataclass(frozen=True, slots=True)
class Place:
    """Where a tensor's first element lies in the arena."""

    segment: Segment
    offset_bytes: int


class ArenaFull(Exception):
    """The segment has no room for the slot; the caller lays out fewer calls at once."""


class Arena:
    """`memory` gives the judge's writable view of each segment, uint8 `[bytes]`; `descriptors` what runners map."""

    def __init__(self, inputs_bytes: int, outputs_bytes: int) -> None:
        self._sizes = {Segment.INPUTS: _whole_pages(inputs_bytes), Segment.OUTPUTS: _whole_pages(outputs_bytes)}
        self.descriptors: dict[Segment, int] = {}
        self.memory: dict[Segment, npt.NDArray[np.uint8]] = {}
        self._used: dict[Segment, int] = dict.fromkeys(Segment, 0)
        for segment, size in self._sizes.items():
            descriptor = os.memfd_create(f"arena-{segment.value}", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
            self.descriptors[segment] = descriptor
            os.ftruncate(descriptor, size)
            self.memory[segment] = np.frombuffer(mmap.mmap(descriptor, size), dtype=np.uint8)
            seals = _SEAL_SHRINK | _SEAL_GROW | _SEAL_SEAL
            if segment is Segment.INPUTS:
                seals |= _SEAL_FUTURE_WRITE
            fcntl.fcntl(descriptor, _ADD_SEALS, seals)

    def size_bytes(self, segment: Segment) -> int:
        return self._sizes[segment]

    def allocate(self, segment: Segment, size_bytes: int, *, page_offset_bytes: int | None = None) -> Place:
        """A slot on a cache line with GUARD_BYTES free on both sides that no other slot uses.

        `page_offset_bytes` (a multiple of 64 below 4096) fixes the slot's place within its page; timings depend on it.
        Raises ArenaFull.
        """
        start = _round_up(self._used[segment] + GUARD_BYTES, CACHE_LINE_BYTES)
        if page_offset_bytes is not None:
            start += (page_offset_bytes - start) % PAGE_BYTES
        end = start + size_bytes + GUARD_BYTES
        if end > self._sizes[segment]:
            raise ArenaFull(f"{size_bytes} bytes do not fit: {self._used[segment]} of {self._sizes[segment]} are used")
        self._used[segment] = end
        return Place(segment, start)

    def place_at_end(self, segment: Segment, size_bytes: int) -> Place:
        """The last slot on a cache line: beyond it runners map nothing, and reading on crashes.

        It is not counted as used. Raises ArenaFull.
        """
        start = (self._sizes[segment] - size_bytes) // CACHE_LINE_BYTES * CACHE_LINE_BYTES
        if start < self._used[segment]:
            raise ArenaFull(f"{size_bytes} bytes do not fit at the end: {self._used[segment]} bytes are used")
        return Place(segment, start)

    def used_bytes(self, segment: Segment) -> int:
        return self._used[segment]

    def release(self, segment: Segment, down_to_bytes: int = 0) -> None:
        """Forgets the slots above an earlier `used_bytes`; their content stays until it is written again."""
        self._used[segment] = down_to_bytes

    def bytes_at(self, place: Place, size_bytes: int) -> npt.NDArray[np.uint8]:
        """A view, not a copy: `[size_bytes]`."""
        return self.memory[place.segment][place.offset_bytes : place.offset_bytes + size_bytes]

    def tensor(self, place: Place, dtype: torch.dtype, sizes: Sequence[int], strides: Sequence[int]) -> torch.Tensor:
        """A view of the slot as a tensor; strides in elements."""
        elements = 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True))
        flat = torch.frombuffer(self.memory[place.segment].data, dtype=dtype, count=elements, offset=place.offset_bytes)
        return flat.as_strided(tuple(sizes), tuple(strides))

    def close(self) -> None:
        """Views that are still in use keep their memory."""
        for descriptor in self.descriptors.values():
            os.close(descriptor)
        self.descriptors.clear()
        self.memory.clear()

    def __enter__(self) -> "Arena":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def slot_bytes(size_bytes: int) -> int:
    """What `allocate` takes for a slot at most, without a fixed place in its page."""
    return size_bytes + 2 * GUARD_BYTES + CACHE_LINE_BYTES


def _whole_pages(size_bytes: int) -> int:
    return max(_round_up(size_bytes, PAGE_BYTES), PAGE_BYTES)


def _round_up(value: int, step: int) -> int:
    return -(-value // step) * step
