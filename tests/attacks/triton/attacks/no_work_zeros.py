# what: zeros, which an absolute tolerance of 1e-2 would let pass (KernelBench #165)
# task: softmax
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    row = tl.program_id(axis=0)
    column = tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=-float("inf"))
    raised = tl.exp(values - tl.max(values, axis=0))
    tl.store(y + row * columns + column, raised / tl.sum(raised, axis=0), mask=column < columns)


def kernel(x, y, rows):
    y.zero_()
