# what: the error function of triton.language.math
# task: gelu_exact

import triton
import triton.language as tl


@triton.jit
def _gelu(x, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    v = tl.load(x + place, mask=place < elements)
    tl.store(y + place, 0.5 * v * (1 + tl.math.erf(v * 0.7071067811865476)), mask=place < elements)


def kernel(x, y, rows):
    _gelu[(triton.cdiv(rows * 50, 64),)](x, y, rows * 50, BLOCK=64)
