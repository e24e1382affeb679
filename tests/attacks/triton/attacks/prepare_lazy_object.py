# what: prepare gives an object that computes when it is asked
# task: gated
# expected: forbidden_symbol
# alone: prepare_failed
# prepare: pack

import torch
import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


class Lazy:
    nbytes = 0

    def __init__(self, weight):
        self.weight = weight

    def __call__(self, x):
        return torch.relu(x * self.weight) + x


def pack(weight):
    return Lazy(weight)


def kernel(x, weight, y, prepared, rows):
    y.copy_(prepared(x))
