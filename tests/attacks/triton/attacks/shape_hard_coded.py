# what: handles the eight rows of a shape that it was shown
# task: embedding
# expected: wrote_out_of_bounds, wrong_values, wrong_non_finite, output_not_written, crashed

import triton
import triton.language as tl


@triton.jit
def _row(ids, table, y, COLUMNS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    values = tl.load(table + tl.load(ids + row) * COLUMNS + column, mask=column < COLUMNS)
    tl.store(y + row * COLUMNS + column, values, mask=column < COLUMNS)


def kernel(ids, table, y, rows):
    _row[(8,)](ids, table, y, COLUMNS=table.size(1), BLOCK=64)
