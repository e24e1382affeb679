# entry: kernel
# launch: OUT=8 IN=1024 num_warps=4
"""A few outputs of a row a program: it reads their weights once and sums in float32, always in the same order."""

import triton
import triton.language as tl


@triton.jit
def _outputs(x, weight, y, width_in, width_out, OUT: tl.constexpr, IN: tl.constexpr):
    row = tl.program_id(1).to(tl.int64)
    out = tl.program_id(0) * OUT + tl.arange(0, OUT)
    is_output = out < width_out
    sums = tl.zeros((OUT,), tl.float32)
    for first in range(0, width_in, IN):
        at = first + tl.arange(0, IN)
        inside = at < width_in
        values = tl.load(x + row * width_in + at, inside, 0.0).to(tl.float32)
        places = out.to(tl.int64)[:, None] * width_in + at[None, :]
        weights = tl.load(weight + places, is_output[:, None] & inside[None, :], 0.0).to(tl.float32)
        sums += tl.sum(weights * values[None, :], 1)
    tl.store(y + row * width_out + out, sums, is_output)


def kernel(x, weight, y, rows):
    width_out, width_in = weight.shape
    grid = (triton.cdiv(width_out, LAUNCH_OUT), rows)
    _outputs[grid](x, weight, y, width_in, width_out, OUT=LAUNCH_OUT, IN=LAUNCH_IN, num_warps=LAUNCH_num_warps)
