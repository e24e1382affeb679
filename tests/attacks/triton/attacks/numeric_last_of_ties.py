# what: the last of ties
# task: argmax
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _rows(x, y, rows, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, 16)
    values = tl.load(x + row[:, None] * 16 + column[None, :], mask=(row < rows)[:, None], other=0.0)
    is_largest = values == tl.max(values, 1)[:, None]
    tl.store(y + row, tl.max(tl.where(is_largest, column[None, :], -1), 1), mask=row < rows)


def kernel(x, y, rows):
    _rows[(triton.cdiv(rows, 4),)](x, y, rows, ROWS=4)
