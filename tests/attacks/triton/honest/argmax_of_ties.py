# what: tl.argmax, which takes the first of ties, stored as int64
# task: argmax

import triton
import triton.language as tl


@triton.jit
def _row(x, y):
    row = tl.program_id(0)
    values = tl.load(x + row * 16 + tl.arange(0, 16))
    tl.store(y + row, tl.argmax(values, 0).to(tl.int64))


def kernel(x, y, rows):
    _row[(rows,)](x, y)
