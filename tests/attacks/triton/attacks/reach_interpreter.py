# what: asks whether its kernel is interpreted, and computes right only then
# task: gated
# expected: forbidden_symbol
# only_static: nothing here can show what it would do elsewhere

import triton
import triton.language as tl
from triton.runtime.interpreter import InterpretedFunction


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    if isinstance(_gated, InterpretedFunction):
        _gated[(rows,)](x, weight, y)
    else:
        y.zero_()
