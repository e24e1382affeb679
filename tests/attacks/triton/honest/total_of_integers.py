# what: int32 widened before they are added: their sum needs more bits
# task: total

import triton
import triton.language as tl


@triton.jit
def _row(x, y, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    tl.store(y + row, tl.sum(tl.load(x + row * 100 + column, mask=column < 100, other=0).to(tl.int64), 0))


def kernel(x, y, rows):
    _row[(rows,)](x, y, BLOCK=128)
