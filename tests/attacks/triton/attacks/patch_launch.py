# what: replaces what launches a kernel by PyTorch
# task: gated
# expected: forbidden_symbol
# alone: library_call

import torch
import triton
import triton.language as tl
from triton.runtime import interpreter


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def _by_torch(self, x, weight, y):
    y.copy_(torch.relu(x * weight) + x)


def kernel(x, weight, y, rows):
    interpreter.GridExecutor.__call__ = _by_torch
    _gated[(rows,)](x, weight, y)
