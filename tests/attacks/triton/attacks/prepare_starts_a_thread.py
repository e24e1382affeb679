# what: prepare starts a thread that computes for the kernel
# task: gated
# expected: forbidden_symbol
# alone: library_call
# prepare: pack

import queue
import threading

import torch
import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


REQUESTS, DONE = queue.Queue(), queue.Queue()


def serve():
    while True:
        x, weight, y = REQUESTS.get()
        y.copy_(torch.relu(x * weight) + x)
        DONE.put(None)


def pack(weight):
    threading.Thread(target=serve, daemon=True).start()
    return weight


def kernel(x, weight, y, prepared, rows):
    REQUESTS.put((x, weight, y))
    DONE.get()
