# what: a @triton.jit function that opens files
# task: gated
# expected: forbidden_symbol
# only_static: it gains nothing: there is nothing to read in the sandbox but what the kernel was given

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    open("/proc/self/maps").read()
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    _gated[(rows,)](x, weight, y)
