"""aten reductions over one dim and matrix products."""

from collections.abc import Callable
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types
import torch

from compiler_agent.agents.search.aten_views import slice_along, squeeze_along
from compiler_agent.agents.search.expressions import (
    Contract,
    Expression,
    Index,
    Reduce,
    ReductionKind,
    Size,
)
from compiler_agent.agents.search.index_maps import CutNeeded, Ranges, Unsupported, loop_symbol
from compiler_agent.agents.search.tensors import Shape, Tensor, apply, pointwise, result_type, value_at

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Any]
REDUCTIONS: dict[Any, Handler] = {}


def _handles(*overloads: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        REDUCTIONS.update(dict.fromkeys(overloads, handler))
        return handler

    return register


def _reduction(name: str, shape: Shape, x: Tensor, dims: Any, keepdim: bool, kind: ReductionKind) -> Tensor:
    places = [dim % len(x.shape) for dim in ([dims] if isinstance(dims, int) else dims or range(len(x.shape)))]
    if len(places) != 1:
        raise Unsupported(f"reduction {name} over {len(places)} dims")
    (place,) = places
    variable = loop_symbol(f"r_{name}")

    def at(index: Index, ranges: Ranges) -> Expression:
        outer = (*index[:place], *index[place + 1 :]) if keepdim else index

        def over(low: Size, high: Size) -> Expression:
            inner = dict(ranges) | {variable: (low, high)}
            try:
                body = value_at(x, (*outer[:place], variable, *outer[place:]), inner)
            except CutNeeded as cut:
                if cut.variable != variable:
                    raise
                combine = {"sum": "add", "max": "maximum", "min": "minimum"}[kind.value]
                return apply(combine, over(low, cut.at), over(cut.at, high))
            return Reduce(kind, variable, low, high, body)

        return over(sympy.Integer(0), x.shape[place])

    return Tensor(shape, result_type((x,)), at)


@_handles(aten.sum.dim_IntList)
def _sum(name: str, shape: Shape, x: Tensor, dims: Any, keepdim: bool = False, **_type: Any) -> Tensor:
    return _reduction(name, shape, x, dims, keepdim, ReductionKind.SUM)


@_handles(aten.amax.default)
def _amax(name: str, shape: Shape, x: Tensor, dims: Any = (), keepdim: bool = False) -> Tensor:
    return _reduction(name, shape, x, dims, keepdim, ReductionKind.MAX)


@_handles(aten.amin.default)
def _amin(name: str, shape: Shape, x: Tensor, dims: Any = (), keepdim: bool = False) -> Tensor:
    return _reduction(name, shape, x, dims, keepdim, ReductionKind.MIN)


@_handles(aten.mean.dim)
def _mean(name: str, shape: Shape, x: Tensor, dims: Any, keepdim: bool = False, **_type: Any) -> Tensor:
    total = _reduction(name, shape, x, dims, keepdim, ReductionKind.SUM)
    return pointwise(shape, (total, _reduced_size(x, dims)), lambda value, size: apply("div", value, size))


def _reduced_size(x: Tensor, dims: Any) -> Size:
    return x.shape[(dims if isinstance(dims, int) else dims[0]) % len(x.shape)]


@_handles(aten.var.correction)
def _var(
    name: str, shape: Shape, x: Tensor, dims: Any = None, *, correction: float | None = 1, keepdim: bool = False
) -> Tensor:
    """Two passes, mean first, so that an offset of the row costs no digits."""
    kept = tuple(sympy.Integer(1) if place == dims[0] % len(x.shape) else size for place, size in enumerate(x.shape))
    mean = _centred_mean(f"{name}_mean", kept, x, dims, True)
    deviation = pointwise(x.shape, (x, mean), lambda value, center: apply("mul", *[apply("sub", value, center)] * 2))
    total = _reduction(name, shape, deviation, dims, keepdim, ReductionKind.SUM)
    count = _reduced_size(x, dims) - sympy.Integer(int(1 if correction is None else correction))
    return pointwise(shape, (total, count), lambda value, size: apply("div", value, size))


@_handles(aten.var_mean.correction)
def _var_mean(
    name: str, shapes: tuple[Shape, Shape], x: Tensor, dims: Any = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    variance = _var(name, shapes[0], x, dims, correction=correction, keepdim=keepdim)
    return variance, _centred_mean(f"{name}_mean", shapes[1], x, dims, keepdim)


def _centred_mean(name: str, shape: Shape, x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """The mean as first element + mean distance to it: exact for a constant row, where a variance must vanish."""
    place = (dims if isinstance(dims, int) else dims[0]) % len(x.shape)
    first = slice_along(
        name, tuple(sympy.Integer(1) if at == place else size for at, size in enumerate(x.shape)), x, place
    )
    distance = _mean(
        name, shape, pointwise(x.shape, (x, first), lambda value, start: apply("sub", value, start)), dims, keepdim
    )
    start = first if keepdim else squeeze_along(name, shape, first, place)
    return pointwise(shape, (start, distance), lambda value, mean: apply("add", value, mean))


def _contraction(
    name: str, shape: Shape, x: Tensor, right: Callable[[Index, sympy.Symbol, Ranges], Expression], extent: Size
) -> Tensor:
    variable = loop_symbol("k_" + name)

    def at(index: Index, ranges: Ranges) -> Expression:
        inner = dict(ranges) | {variable: (sympy.Integer(0), extent)}
        if extent == 1:
            return apply(
                "mul", value_at(x, (*index[:-1], sympy.Integer(0)), ranges), right(index, sympy.Integer(0), ranges)
            )
        left = value_at(x, (*index[:-1], variable), inner)
        return Contract(variable, extent, left, right(index, variable, inner), x.element_type)

    return Tensor(shape, result_type((x,)), at)


@_handles(aten.linear.default)
def _linear(name: str, shape: Shape, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = _contraction(
        name, shape, x, lambda index, k, ranges: value_at(weight, (index[-1], k), ranges), weight.shape[1]
    )
    return product if bias is None else pointwise(shape, (product, bias), lambda left, right: apply("add", left, right))


@_handles(aten.mm.default, aten.bmm.default)
def _matmul(name: str, shape: Shape, x: Tensor, y: Tensor) -> Tensor:
    def right(index: Index, k: sympy.Symbol, ranges: Ranges) -> Expression:
        return value_at(y, (*index[:-2], k, index[-1]), ranges)

    return _contraction(name, shape, x, right, x.shape[-1])


@_handles(aten.addmm.default)
def _addmm(name: str, shape: Shape, bias: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return pointwise(shape, (bias, _matmul(name, shape, x, y)), lambda left, right: apply("add", left, right))
