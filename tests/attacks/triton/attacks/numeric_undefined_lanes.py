# what: adds lanes that a masked load left undefined
# task: row_sum
# expected: wrong_non_finite, wrong_values

import triton
import triton.language as tl


@triton.jit
def _row(x, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    sums = tl.zeros([BLOCK], dtype=tl.float32)
    for block in tl.static_range(tl.cdiv(COLUMNS, BLOCK)):
        column = block * BLOCK + tl.arange(0, BLOCK)
        sums += tl.load(x + row * COLUMNS + column, mask=column < COLUMNS)
    tl.store(y + row, tl.sum(sums))


def kernel(x, y, rows):
    _row[(rows,)](x, y, COLUMNS=1000, BLOCK=128)
