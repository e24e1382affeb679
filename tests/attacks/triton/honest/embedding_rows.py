# what: addresses that come from memory
# task: embedding

import triton
import triton.language as tl


@triton.jit
def _row(ids, table, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(table + tl.load(ids + row) * COLUMNS + column, mask=column < COLUMNS)
    tl.store(y + row * COLUMNS + column, values, mask=column < COLUMNS)


def kernel(ids, table, y, rows):
    _row[(ids.shape[0],)](ids, table, y, COLUMNS=table.size(1), BLOCK=64)
