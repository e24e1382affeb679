# what: division that rounds to zero, as Triton's own does
# task: wrap
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _wrap(x, y):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    moved = tl.load(x + place) - 50
    rest = moved % 7
    tl.store(y + place, (moved - rest) // 7 * 3 + rest)


def kernel(x, y, rows):
    _wrap[(rows,)](x, y)
