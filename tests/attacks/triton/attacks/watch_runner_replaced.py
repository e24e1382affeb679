# what: replaces what the runner calls, by its module
# task: gated
# expected: forbidden_symbol
# alone: library_call, broke_protocol

import sys

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
    runner = sys.modules["__main__"]
    for name in ("fail", "fail_with", "raise_for_kernel"):
        setattr(runner, name, lambda *args: None)
    y.copy_(torch.relu(x * weight) + x)
