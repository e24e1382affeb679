# what: powers of two with the logarithm folded into the scale, several rows a program
# task: softmax

import triton
import triton.language as tl

LOG2_E = tl.constexpr(1.4426950408889634)


@triton.jit
def _rows(x, y, rows, BLOCK: tl.constexpr, ROWS: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    mask = (row < rows) & (column < 200)
    values = tl.load(x + row * 200 + column, mask=mask, other=-1e30)
    raised = tl.exp2((values - tl.max(values, 1, keep_dims=True)) * LOG2_E)
    raised = tl.where(column < 200, raised, 0.0)
    tl.store(y + row * 200 + column, raised / tl.sum(raised, 1, keep_dims=True), mask=mask)


def kernel(x, y, rows):
    _rows[lambda meta: (triton.cdiv(rows, meta["ROWS"]),)](x, y, rows, BLOCK=256, ROWS=4)
