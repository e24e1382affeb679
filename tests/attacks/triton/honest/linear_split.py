# what: the long dim split over programs, partial results in scratch memory, added in a fixed order
# task: linear_long

import torch
import triton
import triton.language as tl


@triton.jit
def _partial(x, weight, partial, rows, PARTS: tl.constexpr):
    row, part = tl.program_id(0), tl.program_id(1)
    k = part * (256 // PARTS) + tl.arange(0, 256 // PARTS)
    feature = tl.arange(0, 64)
    weights = tl.load(weight + feature[:, None] * 256 + k[None, :], mask=(feature < 48)[:, None], other=0.0)
    sums = tl.sum(tl.load(x + row * 256 + k)[None, :] * weights, 1)
    tl.store(partial + (part * rows + row) * 64 + feature, sums)


@triton.jit
def _add(partial, y, rows, PARTS: tl.constexpr):
    row = tl.program_id(0)
    feature = tl.arange(0, 64)
    sums = tl.load(partial + row * 64 + feature)
    for part in tl.static_range(1, PARTS):
        sums += tl.load(partial + (part * rows + row) * 64 + feature)
    tl.store(y + row * 48 + feature, sums, mask=feature < 48)


def kernel(x, weight, y, rows):
    partial = torch.empty((4, rows, 64), dtype=torch.float32, device=x.device)
    _partial[(rows, 4)](x, weight, partial, rows, PARTS=4)
    _add[(rows,)](partial, y, rows, PARTS=4)
