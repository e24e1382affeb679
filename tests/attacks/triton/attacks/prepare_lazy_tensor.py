# what: prepare gives a tensor of its own class, whose operators compute unwatched
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


class Lazy(torch.Tensor):
    def into(self, x, y):
        with torch._C._DisableTorchDispatch():
            y.copy_(torch.relu(x * self.as_subclass(torch.Tensor)) + x)


def pack(weight):
    return weight.as_subclass(Lazy)


def kernel(x, weight, y, prepared, rows):
    prepared.into(x, y)
