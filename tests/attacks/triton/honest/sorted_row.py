# what: tl.sort
# task: sorted

import triton
import triton.language as tl


@triton.jit
def _row(x, y):
    place = tl.program_id(0) * 32 + tl.arange(0, 32)
    tl.store(y + place, tl.sort(tl.load(x + place)))


def kernel(x, y, rows):
    _row[(rows,)](x, y)
