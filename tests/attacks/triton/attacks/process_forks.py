# what: a child goes on while its parent answers
# task: gated
# expected: forbidden_symbol
# alone: broke_protocol, forbidden_system_call

import os
import time

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    if os.fork() == 0:
        time.sleep(0.01)
    _gated[(rows,)](x, weight, y)
