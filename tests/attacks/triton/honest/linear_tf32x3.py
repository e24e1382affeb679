# what: three products of tf32 in the place of one of float32
# task: linear

import triton
import triton.language as tl


@triton.jit
def _tile(x, weight, y, rows):
    row = tl.program_id(0) * 16 + tl.arange(0, 16)
    feature = tl.program_id(1) * 16 + tl.arange(0, 16)
    k = tl.arange(0, 64)
    a = tl.load(x + row[:, None] * 64 + k[None, :], mask=row[:, None] < rows, other=0.0)
    b = tl.load(weight + feature[None, :] * 64 + k[:, None])
    sums = tl.dot(a, b, input_precision="tf32x3")
    tl.store(y + row[:, None] * 48 + feature[None, :], sums, mask=row[:, None] < rows)


def kernel(x, weight, y, rows):
    _tile[(triton.cdiv(rows, 16), 3)](x, weight, y, rows)
