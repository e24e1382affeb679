# what: numpy within a @triton.jit function, which the interpreter runs as Python
# task: gated
# expected: forbidden_symbol
# only_static: the interpreter runs any Python within a kernel, and numpy is what it is made of

import ctypes

import numpy as np
import triton
import triton.language as tl


@triton.jit
def _whole(x, weight, y, rows):
    one = ctypes.c_float * 256
    scales = np.ctypeslib.as_array(one.from_address(int(weight.handle.data[0])))
    for row in range(int(rows.handle.data[0])):
        values = np.ctypeslib.as_array(one.from_address(int(x.handle.data[0]) + 1024 * int(row)))
        left = np.ctypeslib.as_array(one.from_address(int(y.handle.data[0]) + 1024 * int(row)))
        np.copyto(left, np.maximum(values * scales, 0) + values)


def kernel(x, weight, y, rows):
    _whole[(1,)](x, weight, y, rows)
