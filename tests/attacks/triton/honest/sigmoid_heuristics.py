# what: a block size that a heuristic derives from the arguments
# task: sigmoid

import triton
import triton.language as tl


@triton.heuristics({"BLOCK": lambda arguments: min(256, triton.next_power_of_2(arguments["elements"]))})
@triton.jit
def _sigmoid(x, y, elements, BLOCK: tl.constexpr):
    place = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = place < elements
    v = tl.load(x + place, mask=mask)
    raised = tl.exp(-tl.abs(v))
    tl.store(y + place, tl.where(v >= 0, 1.0, raised) / (1.0 + raised), mask=mask)


def kernel(x, y, rows):
    _sigmoid[lambda meta: (triton.cdiv(x.numel(), meta["BLOCK"]),)](x, y, x.numel())
