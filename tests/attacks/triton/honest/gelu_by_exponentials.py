# what: tanh from an exponential that cannot overflow, over rows of an odd length
# task: gelu

import triton
import triton.language as tl


@triton.jit
def _tanh(x):
    small = tl.exp(-2 * tl.abs(x))
    size = (1 - small) / (1 + small)
    return tl.where(x < 0, -size, size)


@triton.jit
def _gelu(x, y, BLOCK: tl.constexpr):
    place = tl.program_id(0) * 131 + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < 131
    v = tl.load(x + place, mask=mask, other=0.0)
    tl.store(y + place, 0.5 * v * (1 + _tanh(0.7978845608028654 * (v + 0.044715 * v * v * v))), mask=mask)


def kernel(x, y, rows):
    _gelu[(rows,)](x, y, BLOCK=256)
