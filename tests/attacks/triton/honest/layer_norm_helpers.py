# what: functions of its own called from a kernel, one of which gives two results
# task: layer_norm

import triton
import triton.language as tl


@triton.jit
def _moments(values, columns: tl.constexpr):
    mean = tl.sum(values, 0) / columns
    apart = values - mean
    return mean, tl.sum(apart * apart, 0) / columns


@triton.jit
def _affine(values, weight, bias, column):
    return values * tl.load(weight + column) + tl.load(bias + column)


@triton.jit
def _row(x, weight, bias, y, COLUMNS: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, COLUMNS)
    values = tl.load(x + row * COLUMNS + column)
    mean, variance = _moments(values, COLUMNS)
    normal = (values - mean) * tl.rsqrt(variance + 1e-5)
    tl.store(y + row * COLUMNS + column, _affine(normal, weight, bias, column))


def kernel(x, weight, bias, y, rows):
    _row[(rows,)](x, weight, bias, y, COLUMNS=256)
