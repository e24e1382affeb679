# what: tl.max that gives the index too
# task: largest

import triton
import triton.language as tl


@triton.jit
def _row(x, value, index, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * 50 + column, mask=column < 50, other=float("-inf"))
    largest, place = tl.max(values, 0, return_indices=True)
    tl.store(value + row, largest)
    tl.store(index + row, place)


def kernel(x, value, index, rows):
    _row[(rows,)](x, value, index, BLOCK=64)
