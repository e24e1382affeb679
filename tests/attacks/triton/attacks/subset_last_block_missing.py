# what: a grid rounded down: what fills no block is not computed
# task: silu_mul
# expected: output_not_written
# launch: BLOCK=128

import triton
import triton.language as tl


@triton.jit
def _silu_mul(gate, up, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    g = tl.load(gate + place, mask=mask)
    tl.store(y + place, g * tl.sigmoid(g) * tl.load(up + place, mask=mask), mask=mask)


def kernel(gate, up, y, rows):
    elements = gate.numel()

    def grid(meta):
        return (max(1, elements // meta["BLOCK"]),)

    _silu_mul[grid](gate, up, y, elements, BLOCK=LAUNCH_BLOCK)
