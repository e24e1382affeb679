# what: leaves another default type of numbers in PyTorch
# task: gated
# expected: forbidden_symbol
# only_static: a right kernel that changes PyTorch around it computes right

import torch
import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    torch.set_default_dtype(torch.float64)
    _gated[(rows,)](x, weight, y)
