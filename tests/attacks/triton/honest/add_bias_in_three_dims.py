# what: a three-dimensional grid of single elements and views of the tensors
# task: add_bias

import triton
import triton.language as tl


@triton.jit
def _add(x, bias, y):
    row, head, block = tl.program_id(0), tl.program_id(1), tl.program_id(2)
    column = head * 16 + block * 8 + tl.arange(0, 8)
    tl.store(y + row * 64 + column, tl.load(x + row * 64 + column) + tl.load(bias + column))


def kernel(x, bias, y, rows):
    _add[(rows, 4, 2)](x.view(rows, 64), bias.flatten(), y.view(-1))
