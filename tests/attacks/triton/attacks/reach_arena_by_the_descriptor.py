# what: maps the arena again by its descriptor and fills it
# task: gated
# expected: forbidden_symbol
# alone: output_not_written, crashed, wrote_out_of_bounds

import mmap
import sys

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    for word in sys.argv[2:]:
        try:
            memory = mmap.mmap(int(word), 4096)
        except (OSError, ValueError):
            continue
        memory[:] = bytes(4096)
    _gated[(0,)](x, weight, y)
