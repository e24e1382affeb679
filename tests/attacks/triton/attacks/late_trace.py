# what: a trace function computes when the runner copies results back
# task: gated
# expected: forbidden_symbol
# only_static: what runs after the call can compute with the process all to itself

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


HELD = []


def _trace(frame, event, argument):
    if frame.f_code.co_name == "copy_back" and HELD:
        for x, weight, y in HELD:
            y.copy_(torch.relu(x * weight) + x)
        HELD.clear()


def kernel(x, weight, y, rows):
    sys.settrace(_trace)
    HELD.append((x, weight, y))
