# entry: kernel
# launch: BLOCK=1024 num_warps=4
"""Flat over all elements."""

import triton
import triton.language as tl


@triton.jit
def _elements(gate, up, y, count, BLOCK: tl.constexpr):
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = at < count
    g = tl.load(gate + at, inside, 0.0).to(tl.float32)
    u = tl.load(up + at, inside, 0.0).to(tl.float32)
    tl.store(y + at, g / (1.0 + tl.exp(-g)) * u, inside)


def kernel(gate, up, y, rows):
    count = gate.numel()
    _elements[(triton.cdiv(count, LAUNCH_BLOCK),)](gate, up, y, count, BLOCK=LAUNCH_BLOCK, num_warps=LAUNCH_num_warps)
