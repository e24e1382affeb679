# what: a large number where the result is infinite
# task: reciprocal
# expected: wrong_non_finite

import triton
import triton.language as tl


@triton.jit
def _reciprocal(x, y):
    place = tl.program_id(0) * 64 + tl.arange(0, 64)
    v = tl.load(x + place)
    rounded = tl.abs(v) + 12582912.0 - 12582912.0
    rounded = tl.where(tl.abs(v) < 4194304.0, rounded, tl.abs(v))
    tl.store(y + place, tl.clamp(1.0 / tl.where(v < 0, rounded * -1.0, tl.where(v > 0, rounded, v)), -1e30, 1e30))


def kernel(x, y, rows):
    _reciprocal[(rows,)](x, y)
