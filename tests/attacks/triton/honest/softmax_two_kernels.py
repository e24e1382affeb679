# what: one kernel leaves maxima and sums in scratch memory, a second one divides
# task: softmax

import torch
import triton
import triton.language as tl


@triton.jit
def _reduce(x, largest, total, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * 200 + column, mask=column < 200, other=float("-inf"))
    peak = tl.max(values, 0)
    tl.store(largest + row, peak)
    tl.store(total + row, tl.sum(tl.exp(values - peak), 0))


@triton.jit
def _divide(x, largest, total, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    row = place // 200
    values = tl.load(x + place, mask=mask, other=0.0) - tl.load(largest + row, mask=mask, other=0.0)
    tl.store(y + place, tl.exp(values) / tl.load(total + row, mask=mask, other=1.0), mask=mask)


def kernel(x, y, rows):
    largest = torch.empty(rows, device=x.device)
    total = torch.empty_like(largest)
    _reduce[(rows,)](x, largest, total, BLOCK=256)
    _divide[(triton.cdiv(x.numel(), 128),)](x, largest, total, y, x.numel(), BLOCK=128)
