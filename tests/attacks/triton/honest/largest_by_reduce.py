# what: value and index through tl.reduce with a combine function of its own
# task: largest

import triton
import triton.language as tl


@triton.jit
def _first_of_largest(value, index, other, other_index):
    is_first = (value > other) | ((value == other) & (index < other_index))
    return tl.where(is_first, value, other), tl.where(is_first, index, other_index)


@triton.jit
def _row(x, value, index, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * 50 + column, mask=column < 50, other=float("-inf"))
    largest, place = tl.reduce((values, column), 0, _first_of_largest)
    tl.store(value + row, largest)
    tl.store(index + row, place.to(tl.int64))


def kernel(x, value, index, rows):
    _row[(rows,)](x, value, index, BLOCK=64)
