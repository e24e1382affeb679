# what: running maximum and sum over blocks of a row, then a second pass (Milakov and Gimelshein 2018)
# task: softmax
# launch: BLOCK=64

import triton
import triton.language as tl


@triton.jit
def _row(x, y, columns, BLOCK: tl.constexpr):
    x += tl.program_id(0) * columns
    y += tl.program_id(0) * columns
    largest = -float("inf")
    total = 0.0
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        values = tl.load(x + column, mask=column < columns, other=-float("inf"))
        larger = tl.maximum(largest, tl.max(values, 0))
        total = total * tl.exp(largest - larger) + tl.sum(tl.exp(values - larger), 0)
        largest = larger
    for start in range(0, columns, BLOCK):
        column = start + tl.arange(0, BLOCK)
        values = tl.load(x + column, mask=column < columns, other=0.0)
        tl.store(y + column, tl.exp(values - largest) / total, mask=column < columns)


def kernel(x, y, rows):
    _row[(rows,)](x, y, 200, LAUNCH_BLOCK)
