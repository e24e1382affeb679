# what: arithmetic in float16 itself
# task: square_float16

import triton
import triton.language as tl


@triton.jit
def _square(x, y, BLOCK: tl.constexpr):
    place = tl.program_id(0) * 48 + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < 48
    values = tl.load(x + place, mask=mask)
    tl.store(y + place, values * values + 1.0, mask=mask)


def kernel(x, y, rows):
    _square[(rows,)](x, y, 64)
