# what: a program goes on from what the one before it left: right only where they run in order
# task: cumulative_sum
# expected: not_deterministic

import triton
import triton.language as tl


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    base = tl.program_id(0) * columns
    block = tl.program_id(1)
    if block >= 0:
        column = block * BLOCK + tl.arange(0, BLOCK)
        carried = tl.load(y + base + block * BLOCK - 1, mask=block > 0, other=0.0)
        values = tl.load(x + base + column, mask=column < columns, other=0.0)
        tl.store(y + base + column, carried + tl.cumsum(values, 0), mask=column < columns)


def kernel(x, y, rows):
    _row[(rows, 5)](x, y, 77, BLOCK=16)
