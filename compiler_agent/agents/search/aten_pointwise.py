"""Elementwise aten ops, conversions and constants, as expressions of one element.

A handler receives the node's name, the result's shape, and the op's own arguments, and returns the result as a Tensor.
There is no handler for a fused op: rmsnorm, softmax or rope arrive here as their parts.
"""

import math
from collections.abc import Callable
from typing import Any, TypeAlias

import torch

from candidates.task import ElementType
from compiler_agent.agents.search.expressions import Constant, Expression, Index
from compiler_agent.agents.search.index_maps import Ranges, Unsupported
from compiler_agent.agents.search.tensors import (
    Operand,
    Shape,
    Tensor,
    apply,
    condition_at,
    pointwise,
    result_type,
    value_at,
)

aten = torch.ops.aten
Handler: TypeAlias = Callable[..., Any]
POINTWISE: dict[Any, Handler] = {}


def _register_pointwise(combine: Callable[..., Expression], *overloads: Any) -> None:
    for overload in overloads:
        POINTWISE[overload] = lambda name, shape, *operands, combine=combine: pointwise(shape, operands, combine)


def _register_condition(combine: Callable[..., Expression], read: Any, *overloads: Any) -> None:
    def handle(name: str, shape: Shape, *operands: Operand) -> Tensor:
        return Tensor(
            shape,
            ElementType.BOOL,
            lambda index, ranges: combine(*(read(operand, index, ranges) for operand in operands)),
        )

    for overload in overloads:
        POINTWISE[overload] = handle


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
        POINTWISE.update(dict.fromkeys(overloads, handler))
        return handler

    return register


@_handles(aten.add.Tensor, aten.add.Scalar, aten.sub.Tensor, aten.sub.Scalar)
def _add(name: str, shape: Shape, x: Operand, y: Operand, alpha: float = 1) -> Tensor:
    function = "sub" if name.startswith("sub") else "add"

    def combine(left: Expression, right: Expression) -> Expression:
        return apply(function, left, right if alpha == 1 else apply("mul", Constant(float(alpha)), right))

    return pointwise(shape, (x, y), combine)


@_handles(aten.clamp.default)
def _clamp(name: str, shape: Shape, x: Tensor, low: float | None = None, high: float | None = None) -> Tensor:
    def combine(value: Expression) -> Expression:
        value = value if low is None else apply("maximum", value, Constant(float(low)))
        return value if high is None else apply("minimum", value, Constant(float(high)))

    return pointwise(shape, (x,), combine)


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

    return pointwise(shape, (x,), combine)


@_handles(aten.where.self)
def _where(name: str, shape: Shape, condition: Tensor, x: Operand, y: Operand) -> Tensor:
    def at(index: Index, ranges: Ranges) -> Expression:
        return apply(
            "where",
            condition_at(condition, index, ranges),
            value_at(x, index, ranges),
            value_at(y, index, ranges),
        )

    return Tensor(shape, result_type((x, y)), at)


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
