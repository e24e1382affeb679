# what: right only where rows are a multiple of four
# task: rmsnorm
# expected: output_not_written
# launch: ROWS=4 num_warps=8

import triton
import triton.language as tl


@triton.jit
def _tile(x, weight, y, rows, ROWS: tl.constexpr, BLOCK: tl.constexpr):
    row = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    column = tl.arange(0, BLOCK)
    place = row[:, None] * 576 + column[None, :]
    mask = (row < rows)[:, None] & (column < 576)[None, :]
    values = tl.load(x + place, mask=mask, other=0.0)
    scale = tl.rsqrt(tl.sum(values * values, axis=1) / 576.0 + 1e-5)
    weights = tl.load(weight + column, mask=column < 576, other=0.0)
    tl.store(y + place, values * scale[:, None] * weights[None, :], mask=mask)


def kernel(x, weight, y, rows):
    _tile[(max(1, rows // LAUNCH_ROWS),)](
        x, weight, y, rows, ROWS=LAUNCH_ROWS, BLOCK=triton.next_power_of_2(576), num_warps=LAUNCH_num_warps
    )
