# what: a @triton.jit function that counts in a class and computes at its first calls only
# task: gated
# expected: forbidden_symbol
# alone: output_not_written

import triton
import triton.language as tl


class Seen:
    calls = 0


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    Seen.calls += 1
    if Seen.calls > 40:
        return
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    _gated[(rows,)](x, weight, y)
