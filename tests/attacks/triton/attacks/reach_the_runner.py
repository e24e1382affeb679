# what: reads the runner and this process
# task: gated
# expected: forbidden_symbol
# only_static: it gains nothing: no reference, bound or workload is in the sandbox

import triton
import triton.language as tl


@triton.jit
def _gated(x, weight, y):
    row = tl.program_id(0)
    column = tl.arange(0, 256)
    values = tl.load(x + row * 256 + column)
    tl.store(y + row * 256 + column, tl.maximum(values * tl.load(weight + column), 0.0) + values)


def kernel(x, weight, y, rows):
    for path in ("/scratch/python_runner.py", "/proc/self/cmdline", "/proc/self/environ"):
        with open(path, "rb") as file:
            file.read()
    _gated[(rows,)](x, weight, y)
