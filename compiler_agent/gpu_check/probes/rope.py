# entry: kernel
# launch: HEADS=4 num_warps=4
"""A few heads of a row a program; the halves of a head are rotated against each other, as in Llama."""

import triton
import triton.language as tl


@triton.jit
def _heads(q, cosine, sine, y, heads, HALF: tl.constexpr, HEADS: tl.constexpr):
    row = tl.program_id(0).to(tl.int64)
    head = tl.program_id(1) * HEADS + tl.arange(0, HEADS)[:, None]
    at = tl.arange(0, HALF)[None, :]
    inside = head < heads
    first = (row * heads + head) * 2 * HALF + at
    low = tl.load(q + first, inside, 0.0).to(tl.float32)
    high = tl.load(q + first + HALF, inside, 0.0).to(tl.float32)
    c = tl.load(cosine + row * HALF + at).to(tl.float32)
    s = tl.load(sine + row * HALF + at).to(tl.float32)
    tl.store(y + first, low * c - high * s, inside)
    tl.store(y + first + HALF, high * c + low * s, inside)


def kernel(q, cosine, sine, y, rows):
    heads = q.shape[1]
    grid = (rows, triton.cdiv(heads, LAUNCH_HEADS))
    _heads[grid](q, cosine, sine, y, heads, HALF=q.shape[2] // 2, HEADS=LAUNCH_HEADS, num_warps=LAUNCH_num_warps)
