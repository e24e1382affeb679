# what: both halves of a row from one program
# task: rotate

import triton
import triton.language as tl


@triton.jit
def _rotate(x, c, s, y, HALF: tl.constexpr):
    row = tl.program_id(0)
    i = tl.arange(0, HALF)
    first = tl.load(x + row * 2 * HALF + i)
    second = tl.load(x + row * 2 * HALF + HALF + i)
    cosine, sine = tl.load(c + row * HALF + i), tl.load(s + row * HALF + i)
    tl.store(y + row * 2 * HALF + i, first * cosine - second * sine)
    tl.store(y + row * 2 * HALF + HALF + i, tl.fma(second, cosine, first * sine))


def kernel(x, c, s, y, rows):
    _rotate[(rows,)](x, c, s, y, HALF=32)
