# what: tl.histogram of each row into int32 scratch of zeros, widened by a second kernel
# task: count

import torch
import triton
import triton.language as tl


@triton.jit
def _count(ids, counts):
    place = tl.program_id(0) * 16 + tl.arange(0, 16)
    found = tl.histogram(tl.load(ids + place).to(tl.int32), 8)
    tl.atomic_add(counts + tl.arange(0, 8), found, sem="relaxed")


@triton.jit
def _widen(counts, y):
    i = tl.arange(0, 8)
    tl.store(y + i, tl.load(counts + i).to(tl.int64))


def kernel(ids, y, rows):
    counts = torch.zeros(8, dtype=torch.int32, device=ids.device)
    _count[(rows,)](ids, counts)
    _widen[(1,)](counts, y)
