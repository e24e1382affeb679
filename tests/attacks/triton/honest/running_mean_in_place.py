# what: a state read and written in place
# task: running_mean

import triton
import triton.language as tl


@triton.jit
def _row(x, mean, y):
    place = tl.program_id(0) * 64 + tl.arange(0, 64)
    values = tl.load(x + place)
    moved = tl.load(mean + place) * 0.9 + values * 0.1
    tl.store(mean + place, moved)
    tl.store(y + place, values - moved)


def kernel(x, mean, y, rows):
    _row[(rows,)](x, mean, y)
