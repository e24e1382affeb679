# what: the error function of triton.language.math
# task: error_function

import triton
import triton.language as tl


@triton.jit
def _erf(x, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + place, mask=place < elements)
    tl.store(y + place, tl.math.erf(v), mask=place < elements)


def kernel(x, y, rows):
    _erf[(triton.cdiv(rows * 50, 64),)](x, y, rows * 50, BLOCK=64)
