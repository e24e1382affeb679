# what: adds int32 in int32
# task: total
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _row(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * 100 + column, mask=column < 100, other=0), 0))


def kernel(x, y, rows):
    _row[(rows,)](x, y, BLOCK=128)
