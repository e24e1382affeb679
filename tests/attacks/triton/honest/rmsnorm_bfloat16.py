# what: bfloat16 in memory, float32 in between, one rounding at the end
# task: rmsnorm_bfloat16

import triton
import triton.language as tl


@triton.jit
def _row(x, weight, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < 200
    values = tl.load(x + row * 200 + column, mask=mask, other=0.0).to(tl.float32)
    scale = tl.rsqrt(tl.sum(values * values, 0) / 200 + 1e-5)
    scaled = values * scale * tl.load(weight + column, mask=mask, other=0.0)
    tl.store(y + row * 200 + column, scaled.to(y.dtype.element_ty), mask=mask)


def kernel(x, weight, y, rows):
    _row[(rows,)](x, weight, y, BLOCK=256)
