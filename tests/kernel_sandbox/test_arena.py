"""Arena: what a runner may do with its two segments, and how slots lie in them."""

import mmap
import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kernel_sandbox.arena import CACHE_LINE_BYTES, GUARD_BYTES, PAGE_BYTES, Arena, ArenaFull, Segment


def test_inputs_cannot_be_written_through_their_descriptor() -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        descriptor = arena.descriptors[Segment.INPUTS]
        with pytest.raises(PermissionError):
            os.pwrite(descriptor, b"x", 0)
        with pytest.raises(PermissionError):
            mmap.mmap(descriptor, PAGE_BYTES)
        arena.memory[Segment.INPUTS][0] = 7
        assert mmap.mmap(descriptor, PAGE_BYTES, prot=mmap.PROT_READ)[0] == 7


def test_outputs_are_writable_by_all() -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        mmap.mmap(arena.descriptors[Segment.OUTPUTS], PAGE_BYTES)[5] = 9
        assert arena.memory[Segment.OUTPUTS][5] == 9


@pytest.mark.parametrize("segment", list(Segment))
def test_no_segment_can_be_resized(segment: Segment) -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        for size in (0, 2 * PAGE_BYTES):
            with pytest.raises(PermissionError):
                os.ftruncate(arena.descriptors[segment], size)


def test_a_tensor_is_a_view_of_its_slot() -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        place = arena.allocate(Segment.OUTPUTS, 24)
        tensor = arena.tensor(place, torch.float32, (2, 3), (1, 2))
        tensor.copy_(torch.arange(6).reshape(2, 3))
        again = arena.tensor(place, torch.float32, (6,), (1,))
        assert again.tolist() == [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]


def test_a_full_segment_says_so_and_released_room_is_used_again() -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        first = arena.allocate(Segment.INPUTS, 1000)
        used = arena.used_bytes(Segment.INPUTS)
        arena.allocate(Segment.INPUTS, 1000)
        with pytest.raises(ArenaFull):
            arena.allocate(Segment.INPUTS, 3000)
        arena.release(Segment.INPUTS, used)
        assert arena.allocate(Segment.INPUTS, 2000).offset_bytes > first.offset_bytes


def test_a_slot_at_the_end_leaves_less_than_a_cache_line() -> None:
    with Arena(PAGE_BYTES, PAGE_BYTES) as arena:
        arena.allocate(Segment.INPUTS, 2000)
        assert arena.place_at_end(Segment.INPUTS, 100).offset_bytes == PAGE_BYTES - 128
        with pytest.raises(ArenaFull):
            arena.place_at_end(Segment.INPUTS, 3000)


@given(st.lists(st.tuples(st.integers(1, 5000), st.none() | st.integers(0, 63)), max_size=20))
def test_slots_are_aligned_and_guarded(requests: list[tuple[int, int | None]]) -> None:
    with Arena(PAGE_BYTES, 1 << 20) as arena:
        end = 0
        for size, line in requests:
            offset = None if line is None else line * CACHE_LINE_BYTES
            place = arena.allocate(Segment.OUTPUTS, size, page_offset_bytes=offset)
            assert place.offset_bytes % CACHE_LINE_BYTES == 0
            assert offset is None or place.offset_bytes % PAGE_BYTES == offset
            assert place.offset_bytes - end >= GUARD_BYTES
            end = place.offset_bytes + size
