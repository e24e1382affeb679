# what: divides by the padded length
# task: rmsnorm
# expected: wrong_values
# launch: BLOCK=1024 num_warps=4

import triton
import triton.language as tl


@triton.jit
def _row(x, weight, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < 576
    values = tl.load(x + row * 576 + column, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, 0) / BLOCK + 1e-5)
    tl.store(y + row * 576 + column, values * scale * tl.load(weight + column, mask=mask, other=0.0), mask=mask)


def kernel(x, weight, y, rows):
    _row[(rows,)](x, weight, y, BLOCK=LAUNCH_BLOCK, num_warps=LAUNCH_num_warps)
