# what: replaces os.write, by which the runner answers
# task: gated
# expected: forbidden_symbol
# only_static: it gains nothing: the runner keeps what it writes with

import os

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    write = os.write
    os.write = lambda descriptor, text: write(descriptor, text + text)
    _gated[(rows,)](x, weight, y)
