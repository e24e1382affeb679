# what: bfloat16 widened by its bits, rounded to nearest even by hand
# task: madd_bfloat16

import triton
import triton.language as tl


@triton.jit
def _widened(p, mask):
    bits = tl.load(p, mask=mask, other=0.0).to(tl.int16, bitcast=True).to(tl.uint16, bitcast=True)
    return (bits.to(tl.uint32) << 16).to(tl.float32, bitcast=True)


@triton.jit
def _madd(a, b, c, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    exact = _widened(a + place, mask) * _widened(b + place, mask) + _widened(c + place, mask)
    bits = exact.to(tl.uint32, bitcast=True)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    tl.store(y + place, rounded.to(tl.uint16).to(tl.bfloat16, bitcast=True), mask=mask)


def kernel(a, b, c, y, rows):
    _madd[(triton.cdiv(rows * 64, 64),)](a, b, c, y, rows * 64, BLOCK=64)
