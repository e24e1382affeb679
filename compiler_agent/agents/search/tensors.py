"""Tensors of a graph in pull form: a tensor is its shape and what its element at an index is."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType
from compiler_agent.agents.search.expressions import Apply, Constant, Expression, Index, Size, SizeValue
from compiler_agent.agents.search.index_maps import Ranges, Unsupported, broadcast_index

Shape: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor by its elements: `at(index, ranges)` is the value there; `ranges` bound the variables of the index."""

    shape: Shape
    element_type: ElementType
    at: Callable[[Index, Ranges], Expression]


Operand: TypeAlias = Tensor | Size | int | float


def memoised(tensor: Tensor) -> Tensor:
    """The same tensor; a graph with shared parts would otherwise be read once per path."""
    known: dict[Any, Expression] = {}

    def at(index: Index, ranges: Ranges) -> Expression:
        used = {symbol for part in index for symbol in part.free_symbols}
        key = (index, tuple((name, ranges[name]) for name in sorted(used, key=str) if name in ranges))
        if key not in known:
            known[key] = tensor.at(index, ranges)
        return known[key]

    return replace(tensor, at=at)


def value_at(operand: Operand, index: Index, ranges: Ranges) -> Expression:
    """The operand, broadcast, as a number."""
    if isinstance(operand, Tensor):
        value = operand.at(broadcast_index(index, operand.shape), ranges)
        if operand.element_type is ElementType.BOOL:
            return Apply("where", (value, Constant(1.0), Constant(0.0)))
        if operand.element_type in (ElementType.INT32, ElementType.INT64):
            raise Unsupported("arithmetic on an integer tensor")
        return value
    if isinstance(operand, sympy.Expr):
        return Constant(float(operand)) if operand.is_number else SizeValue(operand)
    return Constant(float(operand))


def condition_at(operand: Operand, index: Index, ranges: Ranges) -> Expression:
    if isinstance(operand, Tensor) and operand.element_type is ElementType.BOOL:
        return operand.at(broadcast_index(index, operand.shape), ranges)
    return Apply("nonzero", (value_at(operand, index, ranges),))


def apply(function: str, *arguments: Expression) -> Expression:
    return Apply(function, arguments)


def result_type(operands: tuple[Operand, ...]) -> ElementType:
    floats = [operand.element_type for operand in operands if isinstance(operand, Tensor)]
    kinds = [kind for kind in floats if kind in (ElementType.FLOAT32, ElementType.BFLOAT16, ElementType.FLOAT16)]
    return ElementType.FLOAT32 if not kinds or len(set(kinds)) > 1 else kinds[0]


def pointwise(shape: Shape, operands: tuple[Operand, ...], combine: Callable[..., Expression]) -> Tensor:
    def at(index: Index, ranges: Ranges) -> Expression:
        return combine(*(value_at(operand, index, ranges) for operand in operands))

    return Tensor(shape, result_type(operands), at)
