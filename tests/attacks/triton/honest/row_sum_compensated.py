# what: Kahan's compensated sum in each lane
# task: row_sum

import triton
import triton.language as tl


@triton.jit
def _row(x, y, LANES: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros([LANES], tl.float32)
    lost = tl.zeros([LANES], tl.float32)
    for start in range(0, 1000, LANES):
        column = start + tl.arange(0, LANES)
        term = tl.load(x + row * 1000 + column, mask=column < 1000, other=0.0) - lost
        larger = total + term
        lost = (larger - total) - term
        total = larger
    tl.store(y + row, tl.sum(total - lost, 0))


def kernel(x, y, rows):
    _row[(rows,)](x, y, LANES=128)
