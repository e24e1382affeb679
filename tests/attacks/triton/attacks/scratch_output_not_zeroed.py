# what: adds to an output that it does not zero
# task: count
# expected: wrong_values, output_not_written

import triton
import triton.language as tl


@triton.jit
def _count(ids, y):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    tl.atomic_add(y + tl.load(ids + place), 1)


def kernel(ids, y, rows):
    _count[(rows,)](ids, y)
