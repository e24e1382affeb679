# what: answers on every descriptor that it has
# task: gated
# expected: forbidden_symbol
# alone: broke_protocol

import contextlib
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
    for descriptor in range(1, 1024):
        with contextlib.suppress(OSError):
            os.write(descriptor, bytes(16))
    _gated[(rows,)](x, weight, y)
