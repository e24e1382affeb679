# what: numpy computes, a kernel that copies is launched on it
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
    values = x.numpy()
    made = torch.from_numpy(np.maximum(values * weight.numpy(), 0) + values)
    _copy[(rows,)](made, y)
