# what: forgets the sum of the blocks before
# task: cumulative_sum
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    base = tl.program_id(0) * columns
    carried = 0.0
    for block in range(tl.cdiv(columns, BLOCK)):
        column = block * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + base + column, mask=column < columns, other=0.0)
        tl.store(y + base + column, tl.cumsum(values, 0), mask=column < columns)
        carried += tl.sum(values, 0)


def kernel(x, y, rows):
    _row[(rows,)](x, y, 77, BLOCK=16)
