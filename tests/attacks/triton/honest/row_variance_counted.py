# what: Welford's update in float64, as PyTorch does, with a count that is the index of a loop
# task: row_variance

import triton
import triton.language as tl


@triton.jit
def _rows(x, y, rows):
    row = tl.program_id(0) * 4 + tl.arange(0, 4)
    mask = row < rows
    mean = tl.zeros([4], tl.float64)
    apart = tl.zeros([4], tl.float64)
    for i in range(100):
        values = tl.load(x + row * 100 + i, mask=mask, other=0.0).to(tl.float64)
        delta = values - mean
        mean += delta / (i + 1).to(tl.float64)
        apart += delta * (values - mean)
    tl.store(y + row, apart / 100, mask=mask)


def kernel(x, y, rows):
    _rows[(triton.cdiv(rows, 4),)](x, y, rows)
