# what: a signal handler computes between the calls
# task: gated
# expected: forbidden_symbol
# alone: output_not_written, library_call, crashed, broke_protocol

import signal

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


def _late(number, frame):
    for x, weight, y in HELD:
        y.copy_(torch.relu(x * weight) + x)
    HELD.clear()


def kernel(x, weight, y, rows):
    HELD.append((x, weight, y))
    signal.signal(signal.SIGALRM, _late)
    signal.setitimer(signal.ITIMER_REAL, 0.0005)
