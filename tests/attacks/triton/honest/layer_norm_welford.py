# what: mean and squared distance in one reduction with a combine function of its own (Chan's parallel form)
# task: layer_norm

import triton
import triton.language as tl


@triton.jit
def _combine(mean, apart, count, other_mean, other_apart, other_count):
    total = count + other_count
    delta = other_mean - mean
    share = other_count / total
    return mean + delta * share, apart + other_apart + delta * delta * count * share, total


@triton.jit
def _row(x, weight, bias, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    nothing = tl.zeros([256], tl.float32)
    mean, apart, count = tl.reduce((values, nothing, nothing + 1), 0, _combine)
    normal = (values - mean) / tl.sqrt(apart / count + 1e-5)
    tl.store(y + row * 256 + column, normal * tl.load(weight + column) + tl.load(bias + column))


def kernel(x, weight, bias, y, rows):
    _row[(rows,)](x, weight, bias, y)
