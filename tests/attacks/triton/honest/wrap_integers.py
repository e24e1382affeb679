# what: division and remainder of negative integers, which Triton rounds to zero and PyTorch down
# task: wrap

import triton
import triton.language as tl


@triton.jit
def _wrap(x, y):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    moved = tl.load(x + place) - 50
    rest = moved % 7
    rest += tl.where(rest < 0, 7, 0)
    tl.store(y + place, (moved - rest) // 7 * 3 + rest)


def kernel(x, y, rows):
    _wrap[(rows,)](x, y)
