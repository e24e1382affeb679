"""Index arithmetic behind views: broadcasting, splitting and merging of dims, cuts of a domain."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types

from compiler_agent.agents.search.expressions import Index, Size

Ranges: TypeAlias = Mapping[sympy.Symbol, tuple[Size, Size]]
"""Each loop variable with the half-open range that it runs over."""


class Unsupported(Exception):
    """The graph leaves the class of programs that this agent writes; the message names the op."""


@dataclass
class SplitNeeded(Exception):
    """The domain must be seen finer: `variable` as an outer and an inner variable of extent `inner`."""

    variable: sympy.Symbol
    inner: Size


@dataclass
class CutNeeded(Exception):
    """The expression has another form on each side of `variable` == `at`."""

    variable: sympy.Symbol
    at: Size


def loop_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, nonnegative=True)


def axis_symbol(name: str) -> sympy.Symbol:
    return sympy.Symbol(name, integer=True, positive=True)


def is_nonnegative(expression: Size) -> bool:
    """Proven for every size >= 1 of the axes."""
    shifted = sympy.expand(expression.subs({symbol: symbol + 1 for symbol in expression.free_symbols}))
    return bool(all(coefficient >= 0 for coefficient in shifted.as_coefficients_dict().values()))


def bounds(index: sympy.Expr, ranges: Ranges) -> tuple[Size, Size]:
    """Smallest and largest value of a linear index over the ranges."""
    low = high = index
    for variable, (start, stop) in ranges.items():
        coefficient = index.coeff(variable)
        if coefficient == 0:
            continue
        first, last = (start, stop - 1) if is_nonnegative(coefficient) else (stop - 1, start)
        low, high = low.subs(variable, first), high.subs(variable, last)
    return sympy.expand(low), sympy.expand(high)


def divide(index: sympy.Expr, divisor: Size, ranges: Ranges) -> tuple[sympy.Expr, sympy.Expr]:
    """Quotient and remainder of a linear index.

    Raises SplitNeeded where the index is not separable yet, Unsupported where no split of a loop helps.
    """
    if divisor == 1:
        return index, sympy.Integer(0)
    quotient, remainder = sympy.Integer(0), sympy.Integer(0)
    for term in sympy.Add.make_args(sympy.expand(index)):
        share = sympy.cancel(term / divisor)
        if share.is_polynomial() and all(value.is_integer for value in share.as_coefficients_dict().values()):
            quotient += share
        else:
            remainder += term
    low, high = bounds(remainder, ranges)
    if is_nonnegative(low) and is_nonnegative(divisor - 1 - high):
        return quotient, remainder
    for variable in sorted(remainder.free_symbols & set(ranges), key=str):
        inner = sympy.cancel(divisor / remainder.coeff(variable))
        start, stop = ranges[variable]
        extent = sympy.cancel(stop / inner)
        if start == 0 and inner.is_polynomial() and inner != 1 and extent.is_polynomial() and extent != 1:
            raise SplitNeeded(variable, inner)
    raise Unsupported(f"index {index} does not split at {divisor}")


def reshape_index(index: Index, old: tuple[Size, ...], new: tuple[Size, ...], ranges: Ranges) -> Index:
    """The index into shape `old` of the element that a row-major view of shape `new` shows at `index`."""
    result: list[sympy.Expr] = []
    position = 0
    start = 0
    while start < len(old):
        stop, end = start + 1, position
        olds, news = old[start], sympy.Integer(1)
        while sympy.expand(olds - news) != 0:
            if end < len(new) and (news == 1 or not is_nonnegative(news - olds)):
                news, end = sympy.expand(news * new[end]), end + 1
            elif stop < len(old):
                olds, stop = sympy.expand(olds * old[stop]), stop + 1
            else:
                raise Unsupported(f"view of {old} as {new}")
        linear = sympy.Integer(0)
        for place in range(position, end):
            linear = sympy.expand(linear * new[place] + index[place])
        parts: list[sympy.Expr] = []
        for size in reversed(old[start + 1 : stop]):
            linear, inner = divide(linear, size, ranges)
            parts.append(inner)
        result.extend((linear, *reversed(parts)))
        start, position = stop, end
    return tuple(result)


def broadcast_index(index: Index, shape: tuple[Size, ...]) -> Index:
    """The index into a tensor of `shape` that is broadcast to as many dims as `index` has."""
    own = index[len(index) - len(shape) :]
    return tuple(sympy.Integer(0) if size == 1 else part for part, size in zip(own, shape, strict=True))
