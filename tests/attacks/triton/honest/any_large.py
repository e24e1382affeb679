# what: booleans reduced by a sum of integers
# task: any_large

import triton
import triton.language as tl


@triton.jit
def _row(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    is_large = tl.load(x + row * 30 + column, mask=column < 30, other=0.0) > 1
    tl.store(y + row, tl.sum(is_large.to(tl.int32), 0) > 0)


def kernel(x, y, rows):
    _row[(rows,)](x, y, BLOCK=32)
