# what: one program a block of columns, which walks down the rows
# task: column_sum

import triton
import triton.language as tl


@triton.jit
def _columns(x, y, rows):
    column = tl.program_id(0) * 8 + tl.arange(0, 8)
    sums = tl.zeros([4, 8], tl.float32)
    for start in range(0, rows, 4):
        row = start + tl.arange(0, 4)
        sums += tl.load(x + row[:, None] * 24 + column[None, :], mask=(row < rows)[:, None], other=0.0)
    tl.store(y + column, tl.sum(sums, 0))


def kernel(x, y, rows):
    _columns[(3,)](x, y, rows)
