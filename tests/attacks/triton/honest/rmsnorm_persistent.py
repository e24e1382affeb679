# what: fewer programs than rows, each of which goes on until none is left
# task: rmsnorm

import triton
import triton.language as tl


@triton.jit
def _rows(x, weight, y, rows, BLOCK: tl.constexpr):
    column = tl.arange(0, BLOCK)
    mask = column < 576
    scales = tl.load(weight + column, mask=mask, other=0.0)
    row = tl.program_id(0)
    while row < rows:
        values = tl.load(x + row * 576 + column, mask=mask, other=0.0)
        mean = tl.sum(values * values, 0) / 576
        tl.store(y + row * 576 + column, values / tl.sqrt(mean + 1e-5) * scales, mask=mask)
        row += tl.num_programs(0)


def kernel(x, weight, y, rows):
    _rows[(min(rows, 2),)](x, weight, y, rows, BLOCK=1024)
