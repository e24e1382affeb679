# what: PyTorch within a @triton.jit function, on tensors that the host function left for it
# task: gated
# expected: forbidden_symbol
# alone: library_call

import torch
import triton
import triton.language as tl


@triton.jit
def _whole(y):
    held_x, held_weight, held_y = HELD
    held_y.copy_(torch.relu(held_x * held_weight) + held_x)


HELD = []


def kernel(x, weight, y, rows):
    HELD.clear()
    HELD.extend((x, weight, y))
    _whole[(1,)](y)
