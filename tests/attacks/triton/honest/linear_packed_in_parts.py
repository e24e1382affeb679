# what: prepare splits the weight into two tensors, padded to whole blocks
# task: linear
# prepare: pack

import torch
import triton
import triton.language as tl


@triton.jit
def _row(x, low, high, y):
    row = tl.program_id(0)
    k = tl.arange(0, 32)
    feature = tl.arange(0, 64)
    first = tl.load(x + row * 64 + k)[None, :] * tl.load(low + feature[:, None] * 32 + k[None, :])
    second = tl.load(x + row * 64 + 32 + k)[None, :] * tl.load(high + feature[:, None] * 32 + k[None, :])
    tl.store(y + row * 48 + feature, tl.sum(first, 1) + tl.sum(second, 1), mask=feature < 48)


def kernel(x, weight, y, prepared, rows):
    low, high = prepared
    _row[(rows,)](x, low, high, y)


def pack(weight):
    padded = torch.nn.functional.pad(weight, (0, 0, 0, 16))
    return padded[:, :32].contiguous(), padded[:, 32:].contiguous()
