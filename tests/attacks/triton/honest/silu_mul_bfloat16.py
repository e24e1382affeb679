# what: widened to float32, rounded by the store
# task: silu_mul_bfloat16

import triton
import triton.language as tl


@triton.jit
def _silu_mul(gate, up, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    g = tl.load(gate + place, mask=mask, other=0).to(tl.float32)
    u = tl.load(up + place, mask=mask, other=0).to(tl.float32)
    tl.store(y + place, g / (1 + tl.exp(-g)) * u, mask=mask)


def kernel(gate, up, y, rows):
    _silu_mul[(triton.cdiv(rows * 96, 64),)](gate, up, y, rows * 96, BLOCK=64)
