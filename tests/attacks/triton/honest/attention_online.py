# what: causal attention over blocks of keys with a running softmax (FlashAttention)
# task: attention

import triton
import triton.language as tl


@triton.jit
def _queries(q, k, v, y, rows, scale, QUERIES: tl.constexpr, KEYS: tl.constexpr):
    query = tl.program_id(0) * QUERIES + tl.arange(0, QUERIES)
    i = tl.arange(0, 16)
    a = tl.load(q + query[:, None] * 16 + i[None, :], mask=(query < rows)[:, None], other=0.0)
    largest = tl.full([QUERIES], float("-inf"), tl.float32)
    total = tl.zeros([QUERIES], tl.float32)
    sums = tl.zeros([QUERIES, 16], tl.float32)
    for start in range(0, tl.minimum((tl.program_id(0) + 1) * QUERIES, rows), KEYS):
        key = start + tl.arange(0, KEYS)
        b = tl.load(k + key[None, :] * 16 + i[:, None], mask=(key < rows)[None, :], other=0.0)
        scores = tl.dot(a, b, input_precision="ieee") * scale
        scores = tl.where((key[None, :] <= query[:, None]) & (key < rows)[None, :], scores, float("-inf"))
        larger = tl.maximum(largest, tl.max(scores, 1))
        shrink = tl.exp(largest - larger)
        raised = tl.exp(scores - larger[:, None])
        total = total * shrink + tl.sum(raised, 1)
        values = tl.load(v + key[:, None] * 16 + i[None, :], mask=(key < rows)[:, None], other=0.0)
        sums = sums * shrink[:, None] + tl.dot(raised, values, input_precision="ieee")
        largest = larger
    tl.store(y + query[:, None] * 16 + i[None, :], sums / total[:, None], mask=(query < rows)[:, None])


def kernel(q, k, v, y, rows):
    _queries[(triton.cdiv(rows, 16),)](q, k, v, y, rows, 0.25, QUERIES=16, KEYS=16)
