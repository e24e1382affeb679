# what: reads a permuted layout as if it were contiguous
# task: add_heads
# expected: wrong_values

import triton
import triton.language as tl


@triton.jit
def _add(q, k, y, q_row, q_head, k_row, k_head, y_row, y_head):
    row, head = tl.program_id(0), tl.program_id(1)
    i = tl.arange(0, 16)
    values = tl.load(q + row * q_row + head * q_head + i) + tl.load(k + row * k_row + head * k_head + i)
    tl.store(y + row * y_row + head * y_head + i, values)


def kernel(q, k, y, rows):
    _add[(rows, 4)](q, k, y, 64, 16, *k.stride()[:2], *y.stride()[:2])
