# what: numpy computes into scratch memory of the kernel, from which a kernel copies
# task: gated
# expected: forbidden_symbol
# alone: library_call

import numpy as np
import torch
import triton
import triton.language as tl


@triton.jit
def _copy(source, y):
    place = tl.program_id(0) * 256 + tl.arange(0, 256)
    tl.store(y + place, tl.load(source + place))


def kernel(x, weight, y, rows):
    made = torch.empty_like(y)
    values = x.numpy()
    made.numpy()[:] = np.maximum(values * weight.numpy(), 0) + values
    _copy[(rows,)](made, y)
