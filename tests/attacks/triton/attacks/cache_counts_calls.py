# what: an attribute of its own function counts calls, and the later ones do nothing
# task: gated
# expected: forbidden_symbol
# alone: output_not_written

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    kernel.calls = getattr(kernel, "calls", 0) + 1
    if kernel.calls <= 12:
        _gated[(rows,)](x, weight, y)
