# what: the place of each element is the count of those before it
# task: sorted

import triton
import triton.language as tl


@triton.jit
def _row(x, y):
    base = tl.program_id(0) * 32
    i = tl.arange(0, 32)
    values = tl.load(x + base + i)
    mine, other = values[:, None], values[None, :]
    is_before = (other < mine) | ((other == mine) & (i[None, :] < i[:, None]))
    tl.store(y + base + tl.sum(is_before.to(tl.int32), 1), values)


def kernel(x, y, rows):
    _row[(rows,)](x, y)
