# what: two passes over a row in blocks, a vector of partial sums between them, all sizes at run time
# task: rmsnorm
# launch: BLOCK=128

import triton
import triton.language as tl


@triton.jit
def _row(x, weight, y, columns, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    squares = tl.zeros([BLOCK], tl.float32)
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        values = tl.load(x + row * columns + column, mask=column < columns, other=0.0)
        squares += values * values
    scale = 1 / tl.sqrt(tl.sum(squares) / columns + eps)
    for start in tl.range(0, columns, BLOCK, num_stages=2):
        column = start + tl.arange(0, BLOCK)
        mask = column < columns
        values = tl.load(x + row * columns + column, mask=mask)
        tl.store(y + row * columns + column, values * scale * tl.load(weight + column, mask=mask), mask=mask)


def kernel(x, weight, y, rows):
    _row[(rows,)](x, weight, y, x.shape[1], 1e-5, BLOCK=LAUNCH_BLOCK)
