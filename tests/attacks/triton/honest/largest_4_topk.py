# what: tl.topk
# task: largest_4

import triton
import triton.language as tl


@triton.jit
def _row(x, y):
    row = tl.program_id(0)
    values = tl.load(x + row * 32 + tl.arange(0, 32))
    tl.store(y + row * 4 + tl.arange(0, 4), tl.topk(values, 4))


def kernel(x, y, rows):
    _row[(rows,)](x, y)
