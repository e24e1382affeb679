# what: 2 for true
# task: is_positive
# expected: wrong_values

import torch
import triton
import triton.language as tl


@triton.jit
def _is_positive(x, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    tl.store(y + place, (tl.load(x + place, mask=mask) > 0).to(tl.uint8) * 2, mask=mask)


def kernel(x, y, rows):
    _is_positive[(triton.cdiv(x.numel(), 64),)](x, y.view(torch.uint8), x.numel(), BLOCK=64)
