"""aten ops that only show elements elsewhere, as index maps."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types
import torch

from compiler_agent.agents.search.expressions import Expression, Index, Size
from compiler_agent.agents.search.index_maps import (
    CutNeeded,
    Ranges,
    Unsupported,
    bounds,
    broadcast_index,
    is_nonnegative,
    reshape_index,
)
from compiler_agent.agents.search.tensors import Shape, Tensor, result_type

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Any]
VIEWS: dict[Any, Handler] = {}


def _handles(*overloads: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        VIEWS.update(dict.fromkeys(overloads, handler))
        return handler

    return register


@_handles(aten.view.default, aten._unsafe_view.default, aten.reshape.default)
def _view(name: str, shape: Shape, x: Tensor, sizes: Any) -> Tensor:
    return replace(x, shape=shape, at=lambda index, ranges: x.at(reshape_index(index, x.shape, shape, ranges), ranges))


@_handles(aten.expand.default)
def _expand(name: str, shape: Shape, x: Tensor, sizes: Any) -> Tensor:
    return replace(x, shape=shape, at=lambda index, ranges: x.at(broadcast_index(index, x.shape), ranges))


@_handles(aten.permute.default)
def _permute(name: str, shape: Shape, x: Tensor, dims: list[int]) -> Tensor:
    places = [dim % len(shape) for dim in dims]

    def at(index: Index, ranges: Ranges) -> Expression:
        return x.at(tuple(index[places.index(dim)] for dim in range(len(places))), ranges)

    return replace(x, shape=shape, at=at)


@_handles(aten.unsqueeze.default)
def _unsqueeze(name: str, shape: Shape, x: Tensor, dim: int) -> Tensor:
    place = dim % len(shape)
    return replace(x, shape=shape, at=lambda index, ranges: x.at(index[:place] + index[place + 1 :], ranges))


@_handles(aten.squeeze.dims, aten.squeeze.dim)
def squeeze_along(name: str, shape: Shape, x: Tensor, dims: list[int] | int) -> Tensor:
    places = {dim % len(x.shape) for dim in ([dims] if isinstance(dims, int) else dims)}
    gone = {place for place in places if x.shape[place] == 1}

    def at(index: Index, ranges: Ranges) -> Expression:
        rest = iter(index)
        return x.at(tuple(sympy.Integer(0) if place in gone else next(rest) for place in range(len(x.shape))), ranges)

    return replace(x, shape=shape, at=at)


@_handles(aten.slice.Tensor)
def slice_along(
    name: str, shape: Shape, x: Tensor, dim: int = 0, start: Any = None, end: Any = None, step: int = 1
) -> Tensor:
    place = dim % len(shape)
    first = sympy.sympify(0 if start is None else start)
    if first.is_number and first < 0:
        first = first + x.shape[place]

    def at(index: Index, ranges: Ranges) -> Expression:
        moved = sympy.expand(first + step * index[place])
        return x.at((*index[:place], moved, *index[place + 1 :]), ranges)

    return replace(x, shape=shape, at=at)


@_handles(aten.select.int)
def _select(name: str, shape: Shape, x: Tensor, dim: int, position: Any) -> Tensor:
    place = dim % len(x.shape)
    chosen = sympy.sympify(position)
    if chosen.is_number and chosen < 0:
        chosen = chosen + x.shape[place]
    return replace(x, shape=shape, at=lambda index, ranges: x.at((*index[:place], chosen, *index[place:]), ranges))


@_handles(aten.split_with_sizes.default)
def _split(name: str, shapes: tuple[Shape, ...], x: Tensor, sizes: list[Any], dim: int = 0) -> tuple[Tensor, ...]:
    parts: list[Tensor] = []
    start = sympy.Integer(0)
    for shape in shapes:
        parts.append(slice_along(name, shape, x, dim, start))
        start = start + shape[dim % len(shape)]
    return tuple(parts)


@_handles(aten.cat.default)
def _cat(name: str, shape: Shape, parts: list[Tensor], dim: int = 0) -> Tensor:
    place = dim % len(shape)

    def at(index: Index, ranges: Ranges) -> Expression:
        low, high = bounds(index[place], ranges)
        start = sympy.Integer(0)
        for part in parts:
            end = sympy.expand(start + part.shape[place])
            if is_nonnegative(low - start) and is_nonnegative(end - 1 - high):
                moved = sympy.expand(index[place] - start)
                return part.at((*index[:place], moved, *index[place + 1 :]), ranges)
            start = end
        raise _cut_at_parts(index[place], [part.shape[place] for part in parts], ranges)

    return replace(parts[0], shape=shape, element_type=result_type(tuple(parts)), at=at)


def _cut_at_parts(index: sympy.Expr, sizes: list[Size], ranges: Ranges) -> CutNeeded | Unsupported:
    """The first border between parts that lies inside the range of the one variable of `index`."""
    variables = [variable for variable in ranges if index.coeff(variable) != 0]
    if len(variables) == 1 and index.coeff(variables[0]) == 1:
        offset = index - variables[0]
        low, high = ranges[variables[0]]
        border = sympy.Integer(0)
        for size in sizes[:-1]:
            border = sympy.expand(border + size)
            at = sympy.expand(border - offset)
            if is_nonnegative(at - low - 1) and is_nonnegative(high - at - 1):
                return CutNeeded(variables[0], at)
    return Unsupported(f"concatenation seen at index {index}")
