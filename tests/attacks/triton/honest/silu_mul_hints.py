# what: hints for the compiler, arguments that are not specialised, a barrier and checks
# task: silu_mul

import triton
import triton.language as tl


@triton.jit(do_not_specialize=["elements"])
def _silu_mul(gate, up, y, elements, BLOCK: tl.constexpr):
    tl.static_assert(BLOCK % 32 == 0, "whole warps")
    tl.assume(elements > 0)
    place = tl.multiple_of(tl.program_id(0) * BLOCK, BLOCK) + tl.max_contiguous(tl.arange(0, BLOCK), BLOCK)
    mask = place < elements
    g = tl.load(gate + place, mask=mask, other=0.0, eviction_policy="evict_first")
    tl.debug_barrier()
    u = tl.load(up + place, mask=mask, other=0.0)
    tl.store(y + place, tl.fdiv(g * u, 1.0 + tl.exp(-g)), mask=mask)


def kernel(gate, up, y, rows):
    _silu_mul[(triton.cdiv(rows * 96, 64), 1, 1)](gate, up, y, rows * 96, BLOCK=64, num_warps=2, num_stages=1)
