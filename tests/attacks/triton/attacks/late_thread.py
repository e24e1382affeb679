# what: a thread computes after the call has returned
# task: gated
# expected: forbidden_symbol
# alone: output_not_written, forbidden_system_call, crashed

import threading
import time

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
    def late():
        time.sleep(0.002)
        y.copy_(torch.relu(x * weight) + x)

    threading.Thread(target=late).start()
