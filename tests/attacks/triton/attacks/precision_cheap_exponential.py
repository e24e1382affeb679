# what: an exponential of four terms
# task: softmax
# expected: wrong_values, wrong_non_finite

import triton
import triton.language as tl


@triton.jit
def _cheap(x):
    y = tl.maximum(x, -80.0) / 256
    power = 1 + y + y * y / 2 + y * y * y / 6
    for _ in tl.static_range(8):
        power = power * power
    return power


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    raised = _cheap(values - tl.max(values, axis=0))
    tl.store(y + row * columns + column, raised / tl.sum(raised, axis=0), mask=column < columns)


def kernel(x, y, rows):
    _row[(rows,)](x, y, x.stride(0), BLOCK=256, num_warps=2)
