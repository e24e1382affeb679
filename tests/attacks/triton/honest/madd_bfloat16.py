# what: product and sum in bfloat16 itself, rounded after each
# task: madd_bfloat16

import triton
import triton.language as tl


@triton.jit
def _madd(a, b, c, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    product = tl.load(a + place, mask=mask) * tl.load(b + place, mask=mask)
    tl.store(y + place, product + tl.load(c + place, mask=mask), mask=mask)


def kernel(a, b, c, y, rows):
    _madd[(triton.cdiv(rows * 64, 128),)](a, b, c, y, rows * 64, BLOCK=128)
