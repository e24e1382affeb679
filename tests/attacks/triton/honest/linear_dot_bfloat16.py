# what: tl.dot of bfloat16 with float32 sums, rounded once
# task: linear_bfloat16

import triton
import triton.language as tl


@triton.jit
def _tile(x, weight, y, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    feature = tl.program_id(1) * 16 + tl.arange(0, 16)
    sums = tl.zeros((ROWS, 16), dtype=tl.float32)
    for start in range(0, 64, BLOCK):
        k = start + tl.arange(0, BLOCK)
        a = tl.load(x + row[:, None] * 64 + k[None, :], mask=(row < rows)[:, None], other=0.0)
        b = tl.load(weight + feature[None, :] * 64 + k[:, None])
        sums += tl.dot(a, b)
    tl.store(y + row[:, None] * 48 + feature[None, :], sums.to(tl.bfloat16), mask=row[:, None] < rows)


def kernel(x, weight, y, rows):
    _tile[(triton.cdiv(rows, 16), 3)](x, weight, y, rows, ROWS=16, BLOCK=32)
