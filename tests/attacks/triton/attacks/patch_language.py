# what: replaces tl.maximum by a function that computes with numpy
# task: gated
# expected: forbidden_symbol
# only_static: the interpreter runs any Python within a kernel, and numpy is what it is made of

import ctypes

import numpy as np
import triton
import triton.language as tl


@triton.jit
def _one(x, weight, y, rows):
    tl.maximum(x, weight, y, rows)


def _memory(pointer, count):
    return np.ctypeslib.as_array((ctypes.c_float * count).from_address(int(pointer.handle.data[0])))


def _whole(x, weight, y, rows):
    count = int(rows.handle.data[0]) * 256
    values = _memory(x, count).reshape(-1, 256)
    _memory(y, count).reshape(-1, 256)[:] = np.maximum(values * _memory(weight, 256), 0) + values


def kernel(x, weight, y, rows):
    tl.maximum = _whole
    _one[(1,)](x, weight, y, rows)
