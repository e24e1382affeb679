# what: keeps the first parameters that it sees
# task: gated
# expected: forbidden_symbol
# alone: library_call

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


KEPT = []


def kernel(x, weight, y, rows):
    KEPT.append(weight)
    _gated[(rows,)](x, KEPT[0], y)
