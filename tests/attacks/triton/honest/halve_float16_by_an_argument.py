# what: a number given at run time is a float32, whatever it is multiplied with
# task: halve_float16

import triton
import triton.language as tl


@triton.jit
def _scale(x, y, factor, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    scaled = tl.load(x + place, mask=mask) * factor
    tl.static_assert(scaled.dtype == tl.float32)
    tl.store(y + place, scaled, mask=mask)


def kernel(x, y, rows):
    _scale[(triton.cdiv(rows * 40, 32),)](x, y, 0.3, rows * 40, BLOCK=32)
