# what: integer atomics on an output that it zeroes first
# task: count

import triton
import triton.language as tl


@triton.jit
def _count(ids, y):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.atomic_add(y + tl.load(ids + place), 1)


def kernel(ids, y, rows):
    y.zero_()
    _count[(rows,)](ids, y)
