# what: blocks one after the other, the sum so far carried along in float64
# task: cumulative_sum

import triton
import triton.language as tl


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    base = tl.program_id(0) * columns
    carried = tl.zeros([1], tl.float64)
    for block in range(tl.cdiv(columns, BLOCK)):
        column = block * BLOCK + tl.arange(0, BLOCK)
        values = tl.load(x + base + column, mask=column < columns, other=0.0).to(tl.float64)
        tl.store(y + base + column, carried + tl.cumsum(values, 0), mask=column < columns)
        carried += tl.sum(values, 0)


def kernel(x, y, rows):
    _row[(rows,)](x, y, 77, BLOCK=16)
