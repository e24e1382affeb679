# what: computes by numpy where the tensors are on a CPU
# task: gated
# expected: forbidden_symbol
# alone: library_call

import numpy as np
import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    if not x.is_cuda:
        y.numpy()[:] = np.maximum(x.numpy() * weight.numpy(), 0) + x.numpy()
        return
    _gated[(rows,)](x, weight, y)
