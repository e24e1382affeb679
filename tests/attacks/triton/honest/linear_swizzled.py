# what: a one-dimensional grid over tiles in swizzled order, the tail of rows wrapped around
# task: linear

import triton
import triton.language as tl


@triton.jit
def _tile(x, weight, y, rows, GROUP: tl.constexpr):
    across, down = 3, tl.cdiv(rows, 16)
    i, j = tl.program_id(0) // across, tl.program_id(0) % across
    i, j = tl.swizzle2d(i, j, down, across, GROUP)
    row = i * 16 + tl.arange(0, 16)
    feature = j * 16 + tl.arange(0, 16)
    k = tl.arange(0, 64)
    a = tl.load(x + (row % rows)[:, None] * 64 + k)
    b = tl.trans(tl.load(weight + feature[:, None] * 64 + k))
    tl.store(y + row[:, None] * 48 + feature, tl.dot(a, b, input_precision="ieee"), mask=row[:, None] < rows)


def kernel(x, weight, y, rows):
    _tile[(triton.cdiv(rows, 16) * 3,)](x, weight, y, rows, GROUP=2)
