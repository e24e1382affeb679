# what: reads one element before its input
# task: silu_mul
# expected: wrong_values, wrong_non_finite
# launch: BLOCK=128

import triton
import triton.language as tl


@triton.jit
def _silu_mul(gate, up, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    g = tl.load(gate + place - 1, mask=mask)
    tl.store(y + place, g * tl.sigmoid(g) * tl.load(up + place, mask=mask), mask=mask)


def kernel(gate, up, y, rows):
    elements = gate.numel()

    def grid(meta):
        return (triton.cdiv(elements, meta["BLOCK"]),)

    _silu_mul[grid](gate, up, y, elements, BLOCK=LAUNCH_BLOCK)
