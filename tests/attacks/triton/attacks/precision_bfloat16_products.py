# what: operands rounded to bfloat16
# task: linear
# expected: wrong_values
# launch: ROWS=16 FEATURES=16 num_stages=2

import triton
import triton.language as tl


@triton.jit
def _tile(x, weight, y, rows, ROWS: tl.constexpr, FEATURES: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.program_id(1) * FEATURES + tl.arange(0, FEATURES)
    sums = tl.zeros([ROWS, FEATURES], tl.float32)
    for start in range(0, 64, 16):
        k = start + tl.arange(0, 16)
        a = tl.load(x + row[:, None] * 64 + k[None, :], mask=(row < rows)[:, None], other=0.0)
        b = tl.load(weight + feature[None, :] * 64 + k[:, None])
        sums = tl.dot(a.to(tl.bfloat16), b.to(tl.bfloat16), sums)
    tl.store(y + row[:, None] * 48 + feature[None, :], sums, mask=(row < rows)[:, None])


def kernel(x, weight, y, rows):
    grid = (triton.cdiv(rows, LAUNCH_ROWS), 48 // LAUNCH_FEATURES)
    _tile[grid](x, weight, y, rows, LAUNCH_ROWS, LAUNCH_FEATURES, num_stages=LAUNCH_num_stages)
