# what: loads bools and chooses by them
# task: pick

import triton
import triton.language as tl


@triton.jit
def _pick(x, flag, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    values = tl.load(x + place, mask=mask)
    tl.store(y + place, tl.where(tl.load(flag + place, mask=mask), values, -values), mask=mask)


def kernel(x, flag, y, rows):
    _pick[(triton.cdiv(rows * 24, 32),)](x, flag, y, rows * 24, BLOCK=32)
