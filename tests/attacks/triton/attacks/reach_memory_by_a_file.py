# what: writes its result through /proc/self/mem
# task: gated
# expected: forbidden_symbol
# alone: library_call, crashed

import numpy as np
import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    made = (np.maximum(x.numpy() * weight.numpy(), 0) + x.numpy()).astype("float32")
    with open("/proc/self/mem", "r+b", buffering=0) as memory:
        memory.seek(y.data_ptr())
        memory.write(made.tobytes())
