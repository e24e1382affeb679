"""What each core aten op means for one element of its result.

A handler receives the node's name, the result's shape, and the op's own arguments, and returns the result as a Tensor.
There is no handler for a fused op: rmsnorm, softmax or rope arrive here as their parts.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import sympy  # type: ignore[import-untyped]  # ships no types
import torch

from candidates.task import ElementType
from compiler_agent.agents.search.expressions import (
    Apply,
    Constant,
    Contract,
    Expression,
    Index,
    Reduce,
    ReductionKind,
    Size,
    SizeValue,
)
from compiler_agent.agents.search.index_maps import (
    CutNeeded,
    Ranges,
    Unsupported,
    bounds,
    broadcast_index,
    is_nonnegative,
    loop_symbol,
    reshape_index,
)

aten = torch.ops.aten
Shape: TypeAlias = tuple[Size, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor by its elements: `at(index, ranges)` is the value there; `ranges` bound the variables of the index."""

    shape: Shape
    element_type: ElementType
    at: Callable[[Index, Ranges], Expression]


Operand: TypeAlias = Tensor | Size | int | float
Handler = Callable[..., Any]
HANDLERS: dict[Any, Handler] = {}


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


def _result_type(operands: tuple[Operand, ...]) -> ElementType:
    floats = [operand.element_type for operand in operands if isinstance(operand, Tensor)]
    kinds = [kind for kind in floats if kind in (ElementType.FLOAT32, ElementType.BFLOAT16, ElementType.FLOAT16)]
    return ElementType.FLOAT32 if not kinds or len(set(kinds)) > 1 else kinds[0]


def _pointwise(shape: Shape, operands: tuple[Operand, ...], combine: Callable[..., Expression]) -> Tensor:
    def at(index: Index, ranges: Ranges) -> Expression:
        return combine(*(value_at(operand, index, ranges) for operand in operands))

    return Tensor(shape, _result_type(operands), at)


def _register_pointwise(combine: Callable[..., Expression], *overloads: Any) -> None:
    for overload in overloads:
        HANDLERS[overload] = lambda name, shape, *operands, combine=combine: _pointwise(shape, operands, combine)


def _register_condition(combine: Callable[..., Expression], read: Any, *overloads: Any) -> None:
    def handle(name: str, shape: Shape, *operands: Operand) -> Tensor:
        return Tensor(
            shape,
            ElementType.BOOL,
            lambda index, ranges: combine(*(read(operand, index, ranges) for operand in operands)),
        )

    for overload in overloads:
        HANDLERS[overload] = handle


def _power(base: Expression, exponent: Expression) -> Expression:
    match exponent:
        case Constant(2.0):
            return apply("mul", base, base)
        case Constant(3.0):
            return apply("mul", apply("mul", base, base), base)
        case Constant(1.0):
            return base
        case Constant(0.5):
            return apply("sqrt", base)
        case Constant(-0.5):
            return apply("rsqrt", base)
        case Constant(-1.0):
            return apply("div", Constant(1.0), base)
    return apply("pow", base, exponent)


for _name in ("neg", "abs", "exp", "sqrt", "rsqrt", "sigmoid", "tanh", "erf", "log", "sin", "cos"):
    _register_pointwise(lambda x, _name=_name: apply(_name, x), getattr(aten, _name).default)
_register_pointwise(lambda x: apply("div", Constant(1.0), x), aten.reciprocal.default)
_register_pointwise(lambda x: apply("maximum", x, Constant(0.0)), aten.relu.default)
_register_pointwise(lambda x: apply("mul", x, apply("sigmoid", x)), aten.silu.default)
_register_pointwise(lambda x, y: apply("mul", x, y), aten.mul.Tensor, aten.mul.Scalar)
_register_pointwise(lambda x, y: apply("div", x, y), aten.div.Tensor, aten.div.Scalar)
_register_pointwise(lambda x, y: apply("maximum", x, y), aten.maximum.default)
_register_pointwise(lambda x, y: apply("minimum", x, y), aten.minimum.default)
_register_pointwise(_power, aten.pow.Tensor_Scalar, aten.pow.Tensor_Tensor, aten.pow.Scalar)
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    _register_condition(
        lambda x, y, _name=_name: apply(_name, x, y), value_at, getattr(aten, _name).Tensor, getattr(aten, _name).Scalar
    )
_register_condition(
    lambda x, y: apply("logical_and", x, y), condition_at, aten.logical_and.default, aten.bitwise_and.Tensor
)
_register_condition(
    lambda x, y: apply("logical_or", x, y), condition_at, aten.logical_or.default, aten.bitwise_or.Tensor
)
_register_condition(lambda x: apply("logical_not", x), condition_at, aten.logical_not.default, aten.bitwise_not.default)


def _handles(*overloads: Any) -> Callable[[Handler], Handler]:
    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(overloads, handler))
        return handler

    return register


@_handles(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar)
def _add(name: str, shape: Shape, x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    function = "sub" if name.startswith("sub") else "add"

    def combine(left: Expression, right: Expression) -> Expression:
        return apply(function, left, right if alpha == 1 else apply("mul", Constant(float(alpha)), right))

    return _pointwise(shape, (x, y), combine)


@_handles(aten.clamp.default)
def _clamp(name: str, shape: Shape, x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    def combine(value: Expression) -> Expression:
        value = value if low is None else apply("maximum", value, Constant(float(low)))
        return value if high is None else apply("minimum", value, Constant(float(high)))

    return _pointwise(shape, (x,), combine)


@_handles(aten.gelu.default)
def _gelu(name: str, shape: Shape, x: Tensor, *, approximate: str = "none") -> Tensor:
    """0.5 (1 + tanh u) as sigmoid(2 u), and 1 + erf as a whole: the tails keep their digits."""

    def combine(value: Expression) -> Expression:
        if approximate == "tanh":
            cube = apply("mul", apply("mul", value, value), value)
            inner = apply("add", value, apply("mul", Constant(0.044715), cube))
            return apply("mul", value, apply("sigmoid", apply("mul", Constant(2 * math.sqrt(2 / math.pi)), inner)))
        bend = apply("one_plus_erf", apply("mul", Constant(math.sqrt(0.5)), value))
        return apply("mul", apply("mul", Constant(0.5), value), bend)

    return _pointwise(shape, (x,), combine)


@_handles(aten.where.self)
def _where(name: str, shape: Shape, condition: Tensor, x: Operand, y: Operand) -> Tensor:
    def at(index: Index, ranges: Ranges) -> Expression:
        return apply(
            "where",
            condition_at(condition, index, ranges),
            value_at(x, index, ranges),
            value_at(y, index, ranges),
        )

    return Tensor(shape, _result_type((x, y)), at)


@_handles(aten.full.default, aten.full_like.default, aten.scalar_tensor.default)
def _full(name: str, shape: Shape, *arguments: Any, **_layout: Any) -> Tensor:
    value = Constant(float(arguments[-1]))
    return Tensor(shape, ElementType.FLOAT32, lambda index, ranges: value)


@_handles(aten.clone.default, aten.alias.default, aten.detach.default)
def _identity(name: str, shape: Shape, x: Tensor, **_layout: Any) -> Tensor:
    return x


@_handles(aten._to_copy.default)
def _convert(name: str, shape: Shape, x: Tensor, *, dtype: torch.dtype | None = None, **_layout: Any) -> Tensor:
    """Between floats nothing is rounded on the way: the kernel computes in float32 and is closer to the oracle."""
    if dtype is None:
        return x
    target = ElementType(str(dtype).removeprefix("torch."))
    if target in (ElementType.INT32, ElementType.INT64):
        raise Unsupported(f"conversion to {target}")
    if target is ElementType.BOOL:
        return Tensor(shape, target, lambda index, ranges: condition_at(x, index, ranges))
    if x.element_type in (ElementType.INT32, ElementType.INT64):
        return Tensor(shape, target, x.at)
    return Tensor(shape, target, lambda index, ranges: value_at(x, index, ranges))


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
def _squeeze(name: str, shape: Shape, x: Tensor, dims: list[int] | int) -> Tensor:
    places = {dim % len(x.shape) for dim in ([dims] if isinstance(dims, int) else dims)}
    gone = {place for place in places if x.shape[place] == 1}

    def at(index: Index, ranges: Ranges) -> Expression:
        rest = iter(index)
        return x.at(tuple(sympy.Integer(0) if place in gone else next(rest) for place in range(len(x.shape))), ranges)

    return replace(x, shape=shape, at=at)


@_handles(aten.slice.Tensor)
def _slice(
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
        parts.append(_slice(name, shape, x, dim, start))
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

    return replace(parts[0], shape=shape, element_type=_result_type(tuple(parts)), at=at)


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

    return Tensor(shape, _result_type((x,)), at)


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
    return _pointwise(shape, (total, _reduced_size(x, dims)), lambda value, size: apply("div", value, size))


def _reduced_size(x: Tensor, dims: Any) -> Size:
    return x.shape[(dims if isinstance(dims, int) else dims[0]) % len(x.shape)]


@_handles(aten.var.correction)
def _var(
    name: str, shape: Shape, x: Tensor, dims: Any = None, *, correction: float | None = 1, keepdim: bool = False
) -> Tensor:
    """Two passes, mean first, so that an offset of the row costs no digits."""
    kept = tuple(sympy.Integer(1) if place == dims[0] % len(x.shape) else size for place, size in enumerate(x.shape))
    mean = _centred_mean(f"{name}_mean", kept, x, dims, True)
    deviation = _pointwise(x.shape, (x, mean), lambda value, center: apply("mul", *[apply("sub", value, center)] * 2))
    total = _reduction(name, shape, deviation, dims, keepdim, ReductionKind.SUM)
    count = _reduced_size(x, dims) - sympy.Integer(int(1 if correction is None else correction))
    return _pointwise(shape, (total, count), lambda value, size: apply("div", value, size))


@_handles(aten.var_mean.correction)
def _var_mean(
    name: str, shapes: tuple[Shape, Shape], x: Tensor, dims: Any = None, *, correction: float = 1, keepdim: bool = False
) -> tuple[Tensor, Tensor]:
    variance = _var(name, shapes[0], x, dims, correction=correction, keepdim=keepdim)
    return variance, _centred_mean(f"{name}_mean", shapes[1], x, dims, keepdim)


def _centred_mean(name: str, shape: Shape, x: Tensor, dims: Any, keepdim: bool) -> Tensor:
    """The mean as first element + mean distance to it: exact for a constant row, where a variance must vanish."""
    place = (dims if isinstance(dims, int) else dims[0]) % len(x.shape)
    first = _slice(name, tuple(sympy.Integer(1) if at == place else size for at, size in enumerate(x.shape)), x, place)
    distance = _mean(
        name, shape, _pointwise(x.shape, (x, first), lambda value, start: apply("sub", value, start)), dims, keepdim
    )
    start = first if keepdim else _squeeze(name, shape, first, place)
    return _pointwise(shape, (start, distance), lambda value, mean: apply("add", value, mean))


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
        return Contract(variable, extent, left, right(index, variable, inner))

    return Tensor(shape, _result_type((x,)), at)


@_handles(aten.linear.default)
def _linear(name: str, shape: Shape, x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    product = _contraction(
        name, shape, x, lambda index, k, ranges: value_at(weight, (index[-1], k), ranges), weight.shape[1]
    )
    return (
        product if bias is None else _pointwise(shape, (product, bias), lambda left, right: apply("add", left, right))
    )


@_handles(aten.mm.default, aten.bmm.default)
def _matmul(name: str, shape: Shape, x: Tensor, y: Tensor) -> Tensor:
    def right(index: Index, k: sympy.Symbol, ranges: Ranges) -> Expression:
        return value_at(y, (*index[:-2], k, index[-1]), ranges)

    return _contraction(name, shape, x, right, x.shape[-1])


@_handles(aten.addmm.default)
def _addmm(name: str, shape: Shape, bias: Tensor, x: Tensor, y: Tensor) -> Tensor:
    return _pointwise(shape, (bias, _matmul(name, shape, x, y)), lambda left, right: apply("add", left, right))
