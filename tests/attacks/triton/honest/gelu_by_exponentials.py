# what: 1 + tanh by way of one exponential, so that nothing cancels, over rows of an odd length
# task: gelu

import triton
import triton.language as tl


@triton.jit
def _gelu(x, y, BLOCK: tl.constexpr):
    place = tl.program_id(0) * 131 + tl.arange(0, BLOCK)
    mask = tl.arange(0, BLOCK) < 131
    v = tl.load(x + place, mask=mask, other=0.0)
    tl.store(y + place, v / (1 + tl.exp(-1.5957691216057308 * (v + 0.044715 * v * v * v))), mask=mask)


def kernel(x, y, rows):
    _gelu[(rows,)](x, y, BLOCK=256)
