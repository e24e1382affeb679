# what: division by a multiplication and a shift
# task: wrap

import triton
import triton.language as tl


@triton.jit
def _wrap(x, y):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    moved = tl.load(x + place) - 50
    quotient = ((moved + 56) * 9363 >> 16) - 8
    tl.store(y + place, quotient * 3 + (moved - quotient * 7))


def kernel(x, y, rows):
    _wrap[(rows,)](x, y)
