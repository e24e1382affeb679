# what: the largest is taken out four times
# task: largest_4

import triton
import triton.language as tl


@triton.jit
def _row(x, y):
    row = tl.program_id(0)
    column = tl.arange(0, 32)
    values = tl.load(x + row * 32 + column)
    for i in tl.static_range(4):
        largest, place = tl.max(values, 0, return_indices=True)
        tl.store(y + row * 4 + i, largest)
        values = tl.where(column == place, float("-inf"), values)


def kernel(x, y, rows):
    _row[(rows,)](x, y)
