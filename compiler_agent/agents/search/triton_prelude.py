"""Triton functions that emitted kernels call, each written out only where one does.

They are as exact as PyTorch's on every target: what Triton offers under these names is approximate, drops NaN, or is
not there.
"""

import re
from collections.abc import Iterator

FUNCTIONS = {
    "exp_of": '''
@triton.jit
def exp_of(x):
    """e^x = 2^n e^r with 0 <= r < ln 2: tl.exp of a large |x| loses the digits of x log2(e)."""
    c = tl.where(x < -105.0, -105.0, tl.where(x > 90.0, 90.0, x))
    n = tl.floor(c * 1.4426950408889634)
    r = (c - n * 0.693359375) + n * 2.12194440e-4
    half = tl.floor(n * 0.5)  # the scale in two steps, so that it neither overflows nor vanishes before the result
    return tl.exp(r) * tl.exp2(half) * tl.exp2(n - half)
''',
    "sigmoid_of": """
@triton.jit
def sigmoid_of(x):
    return tl.div_rn(1.0, 1.0 + exp_of(-x))
""",
    "tanh_of": '''
@triton.jit
def tanh_of(x):
    """Cephes tanhf: an odd polynomial near zero, 1 - 2 / (e^2x + 1) beyond."""
    z = tl.abs(x)
    s = x * x
    p = -5.70498872745e-3 * s + 2.06390887954e-2
    p = p * s - 5.37397155531e-2
    p = p * s + 1.33314422036e-1
    p = p * s - 3.33332819422e-1
    far = 1.0 - tl.div_rn(2.0, exp_of(z + z) + 1.0)
    return tl.where(z < 0.625, p * s * x + x, tl.where(x < 0.0, -far, far))
''',
    "one_plus_erf_of": '''
@triton.jit
def one_plus_erf_of(x):
    """1 + erf x; far below zero it is erfc |x| = e^p(|x|) (after N. Juffa's erff), or its digits would cancel."""
    z = tl.abs(x)
    s = z * z
    q = (-1.72853470e-5 * z + 3.83197126e-4) * s + (-3.88396438e-3 * z + 2.42546219e-2)
    q = q * z - 1.06777877e-1
    q = q * z - 6.34846687e-1
    q = q * z - 1.28717512e-1
    far = exp_of(q * z - z)
    return tl.where(z > 0.921875, tl.where(x < 0.0, far, 2.0 - far), 1.0 + tl.erf(x))
''',
    "max_over": '''
@triton.jit
def max_over(x, axis: tl.constexpr):
    """NaN where there is one, as PyTorch has it: tl.max drops NaN."""
    has_nan = tl.max((x != x).to(tl.int32), axis) != 0
    return tl.where(has_nan, float("nan"), tl.max(x, axis))
''',
    "min_over": '''
@triton.jit
def min_over(x, axis: tl.constexpr):
    """NaN where there is one, as PyTorch has it: tl.min drops NaN."""
    has_nan = tl.max((x != x).to(tl.int32), axis) != 0
    return tl.where(has_nan, float("nan"), tl.min(x, axis))
''',
}


def functions_for(source: str) -> Iterator[str]:
    """Those that the source calls and those that these call, each once, in the table's order."""
    called: set[str] = set()
    pending = [source]
    while pending:
        fresh = set(re.findall(r"\w+", pending.pop())) & FUNCTIONS.keys() - called
        called |= fresh
        pending += [FUNCTIONS[name] for name in fresh]
    yield from (text.strip("\n") for name, text in FUNCTIONS.items() if name in called)
