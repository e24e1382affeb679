# what: finds the watch by the garbage collector and forgets its calls
# task: gated
# expected: forbidden_symbol
# only_static: what watches within a process can be changed from within it

import gc

import torch
import triton
import triton.language as tl
from torch.utils._python_dispatch import TorchDispatchMode


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    y.copy_(torch.relu(x * weight) + x)
    for each in gc.get_objects():
        if isinstance(each, TorchDispatchMode):
            for kept in vars(each).values():
                if isinstance(kept, list | dict):
                    kept.clear()
