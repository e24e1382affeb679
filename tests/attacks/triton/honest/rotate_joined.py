# what: a row reshaped, split, joined and transposed in registers
# task: rotate

import triton
import triton.language as tl


@triton.jit
def _rotate(x, c, s, y):
    row = tl.program_id(0)
    i = tl.arange(0, 32)
    values = tl.load(x + row * 64 + tl.arange(0, 64))
    first, second = tl.split(tl.trans(tl.reshape(values, (2, 32))))
    cosine, sine = tl.load(c + row * 32 + i), tl.load(s + row * 32 + i)
    turned = tl.join(first * cosine - second * sine, second * cosine + first * sine)
    tl.store(y + row * 64 + tl.arange(0, 64), tl.ravel(tl.permute(turned, (1, 0))))


def kernel(x, c, s, y, rows):
    _rotate[(rows,)](x, c, s, y)
