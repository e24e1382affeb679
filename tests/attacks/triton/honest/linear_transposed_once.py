# what: the weight transposed by prepare
# task: linear
# prepare: pack

import triton
import triton.language as tl


@triton.jit
def _row(x, packed, y, FEATURES: tl.constexpr):
    row = tl.program_id(0)
    feature = tl.arange(0, FEATURES)
    sums = tl.zeros([FEATURES], tl.float32)
    for start in range(0, 64, 16):
        k = start + tl.arange(0, 16)
        weights = tl.load(packed + k[:, None] * 48 + feature, mask=feature < 48, other=0.0)
        sums += tl.sum(tl.load(x + row * 64 + k)[:, None] * weights, 0)
    tl.store(y + row * 48 + feature, sums, mask=feature < 48)


def kernel(x, weight, y, prepared, rows):
    _row[(rows,)](x, prepared, y, FEATURES=64)


def pack(weight):
    return weight.t().contiguous()
