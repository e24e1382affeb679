"""Scalar expressions: what one element of a tensor is, as a function of loop variables.

An index or a size is a sympy expression: linear in the loop variables, with products of axis names as coefficients.
Every value is computed in float32; conditions are booleans of the same lanes.
"""

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType

Size: TypeAlias = sympy.Expr
Index: TypeAlias = tuple[sympy.Expr, ...]


class ReductionKind(StrEnum):
    SUM = "sum"
    MAX = "max"
    MIN = "min"
    SUM_EXP = "sum_exp"
    """Of the exponentials of the body less its maximum, which is found on the way."""

    @property
    def neutral(self) -> float:
        return {"sum": 0.0, "max": -math.inf, "min": math.inf, "sum_exp": -math.inf}[self.value]


@dataclass(frozen=True, slots=True)
class Load:
    """An element of an input, or of a scratch buffer of the program."""

    buffer: str
    element_type: ElementType
    index: Index


@dataclass(frozen=True, slots=True)
class Constant:
    value: float


@dataclass(frozen=True, slots=True)
class SizeValue:
    """A size as a number, such as the count that a mean divides by."""

    size: Size


@dataclass(frozen=True, slots=True)
class Apply:
    """An elementwise function of the prelude (`add`, `exp`, `where`, ...)."""

    function: str
    arguments: tuple["Expression", ...]


@dataclass(frozen=True, slots=True)
class Reduce:
    """The reduction of `body` over `variable` in [low, high)."""

    kind: ReductionKind
    variable: sympy.Symbol
    low: Size
    high: Size
    body: "Expression"


@dataclass(frozen=True, slots=True)
class Contract:
    """sum over `variable` in [0, extent) of left * right: the product of a matrix multiplication."""

    variable: sympy.Symbol
    extent: Size
    left: "Expression"
    right: "Expression"
    element_type: ElementType
    """Of both sides, as PyTorch multiplies them."""


Expression = Load | Constant | SizeValue | Apply | Reduce | Contract

TRANSCENDENTAL = frozenset({"exp", "sigmoid", "tanh", "erf", "one_plus_erf", "log", "sin", "cos", "pow"})
CONDITIONS = frozenset({"eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_not", "nonzero"})


def is_condition(expression: Expression) -> bool:
    return isinstance(expression, Apply) and expression.function in CONDITIONS


def children(expression: Expression) -> tuple[Expression, ...]:
    match expression:
        case Apply(arguments=arguments):
            return arguments
        case Reduce(body=body):
            return (body,)
        case Contract(left=left, right=right):
            return (left, right)
        case _:
            return ()


def walk(expression: Expression) -> Iterator[Expression]:
    """The expression and all below it, each distinct one once, parents first."""
    seen: set[Expression] = set()
    pending = [expression]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            yield current
            pending.extend(children(current))


@functools.lru_cache(maxsize=65_536)
def free_symbols(expression: Expression) -> frozenset[sympy.Symbol]:
    """Loop variables and axis names that the value depends on; variables bound by reductions are left out."""
    match expression:
        case Load(index=index):
            return frozenset(symbol for part in index for symbol in part.free_symbols)
        case SizeValue(size=size):
            return frozenset(size.free_symbols)
        case Reduce(variable=variable, low=low, high=high, body=body):
            return frozenset((free_symbols(body) - {variable}) | low.free_symbols | high.free_symbols)
        case Contract(variable=variable, extent=extent, left=left, right=right):
            return frozenset(((free_symbols(left) | free_symbols(right)) - {variable}) | extent.free_symbols)
        case _:
            return frozenset(symbol for child in children(expression) for symbol in free_symbols(child))


def replace(expression: Expression, replacements: Mapping[Expression, Expression]) -> Expression:
    """`expression` with whole sub-expressions exchanged, outermost first."""
    if expression in replacements:
        return replacements[expression]
    match expression:
        case Apply(function=function, arguments=arguments):
            return Apply(function, tuple(replace(argument, replacements) for argument in arguments))
        case Reduce(kind=kind, variable=variable, low=low, high=high, body=body):
            return Reduce(kind, variable, low, high, replace(body, replacements))
        case Contract(variable=variable, extent=extent, left=left, right=right, element_type=element_type):
            left, right = replace(left, replacements), replace(right, replacements)
            return Contract(variable, extent, left, right, element_type)
        case _:
            return expression


def rename(expression: Expression, names: Mapping[sympy.Symbol, sympy.Expr]) -> Expression:
    """`expression` with free loop variables exchanged for index expressions."""
    match expression:
        case Load(buffer=buffer, element_type=element_type, index=index):
            return Load(buffer, element_type, tuple(sympy.expand(part.xreplace(dict(names))) for part in index))
        case Apply(function=function, arguments=arguments):
            return Apply(function, tuple(rename(argument, names) for argument in arguments))
        case Reduce(kind=kind, variable=variable, low=low, high=high, body=body):
            return Reduce(kind, variable, low, high, rename(body, names))
        case Contract(variable=variable, extent=extent, left=left, right=right, element_type=element_type):
            return Contract(variable, extent, rename(left, names), rename(right, names), element_type)
        case _:
            return expression


def operation_cost(expression: Expression) -> int:
    """Rough count of vector operations; a transcendental counts twenty."""
    return sum((20 if part.function in TRANSCENDENTAL else 1) for part in walk(expression) if isinstance(part, Apply))
