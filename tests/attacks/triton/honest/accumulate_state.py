# what: a state and a reduction of what it becomes
# task: accumulate

import triton
import triton.language as tl


@triton.jit
def _row(x, total, peak):
    row = tl.program_id(0)
    place = row * 64 + tl.arange(0, 64)
    sums = tl.load(total + place) + tl.load(x + place)
    tl.store(total + place, sums)
    tl.store(peak + row, tl.max(tl.abs(sums), 0))


def kernel(x, total, peak, rows):
    _row[(rows,)](x, total, peak)
