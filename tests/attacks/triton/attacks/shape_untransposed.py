# what: moves a tile and does not transpose it
# task: transpose
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _transpose(x, y):
    base = tl.program_id(0) * 384
    row, column = tl.arange(0, 16), tl.arange(0, 32)
    tile = tl.load(x + base + row[:, None] * 24 + column[None, :], mask=(column < 24)[None, :], other=0.0)
    tl.store(y + base + row[:, None] * 24 + column[None, :], tile * 2, mask=(column < 24)[None, :])


def kernel(x, y, rows):
    _transpose[(rows,)](x, y)
