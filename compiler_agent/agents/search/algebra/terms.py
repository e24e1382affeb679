"""Expressions as terms of an e-graph, and back.

What rewrites look into (arithmetic, reductions, products) has a constructor; loads, sizes and domains are names that a
table keeps.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import sympy  # type: ignore[import-untyped]  # ships no types
from egglog import BaseExpr, Expr, StringLike, f64Like, function, get_callable_args, get_callable_fn, get_literal_value

from compiler_agent.agents.search.expressions import (
    Apply,
    Constant,
    Contract,
    Expression,
    Reduce,
    ReductionKind,
    children,
    free_symbols,
    rename,
    replace,
    walk,
)
from compiler_agent.agents.search.index_maps import loop_symbol

_NO_NAMES: Mapping[sympy.Symbol, sympy.Symbol] = MappingProxyType({})


class Value(Expr):
    """One element of a tensor."""


@function
def leaf(name: StringLike) -> Value: ...  # type: ignore[empty-body]


@function
def constant(value: f64Like) -> Value: ...  # type: ignore[empty-body]


@function
def unary(name: StringLike, x: Value) -> Value: ...  # type: ignore[empty-body]


@function
def binary(name: StringLike, x: Value, y: Value) -> Value: ...  # type: ignore[empty-body]


@function
def ternary(name: StringLike, x: Value, y: Value, z: Value) -> Value: ...  # type: ignore[empty-body]


@function
def reduction(kind: StringLike, domain: StringLike, body: Value) -> Value: ...  # type: ignore[empty-body]


@function
def product(domain: StringLike, left: Value, right: Value) -> Value: ...  # type: ignore[empty-body]


@dataclass(slots=True)
class Table:
    """What stands behind the names of terms."""

    leaves: dict[str, Expression] = field(default_factory=dict)
    domains: dict[str, Reduce | Contract] = field(default_factory=dict)
    """An expression over each domain, for its variable and its bounds."""
    terms: dict[Expression, Value] = field(default_factory=dict)

    def leaf_name(self, expression: Expression) -> str:
        """A leaf becomes a term once, so that its number is its own."""
        name = f"leaf{len(self.leaves)}"
        self.leaves[name] = expression
        return name

    def domain_name(self, expression: Reduce | Contract) -> str:
        if isinstance(expression, Reduce):
            name = f"{expression.variable} in [{expression.low}, {expression.high})"
        else:
            name = f"{expression.variable} in [0, {expression.extent}) of {expression.element_type}"
        self.domains.setdefault(name, expression)
        return name

    def variables(self) -> set[sympy.Symbol]:
        return {domain.variable for domain in self.domains.values()}


def to_term(expression: Expression, table: Table) -> Value:
    if expression not in table.terms:
        table.terms[expression] = _term(expression, table)
    return table.terms[expression]


def _term(expression: Expression, table: Table) -> Value:
    parts = [to_term(child, table) for child in children(expression)]
    match expression, parts:
        case Constant(value=value), _ if math.isfinite(value):
            return constant(value)
        case Apply(function=name), [x]:
            return unary(name, x)
        case Apply(function=name), [x, y]:
            return binary(name, x, y)
        case Apply(function=name), [x, y, z]:
            return ternary(name, x, y, z)
        case Reduce(kind=kind), [body]:
            return reduction(kind.value, table.domain_name(expression), body)
        case Contract(), [left, right]:
            return product(table.domain_name(expression), left, right)
        case _:
            return leaf(table.leaf_name(expression))


def from_term(term: BaseExpr, table: Table) -> Expression:
    made, (first, *parts) = get_callable_fn(term), get_callable_args(term) or ()
    if made == constant:
        return Constant(float(_literal(first)))
    name = name_of(term)
    if made == leaf:
        return table.leaves[name]
    if made == reduction:
        domain, body = parts
        over = table.domains[str(_literal(domain))]
        assert isinstance(over, Reduce)
        return Reduce(ReductionKind(name), over.variable, over.low, over.high, from_term(body, table))
    values = tuple(from_term(part, table) for part in parts)
    if made == product:
        contract, (left, right) = table.domains[name], values
        assert isinstance(contract, Contract)
        return Contract(contract.variable, contract.extent, left, right, contract.element_type)
    return Apply(name, values)


def name_of(term: BaseExpr) -> str:
    """Its first argument: of a leaf, a function, a kind of reduction, the domain of a product."""
    return str(_literal((get_callable_args(term) or ())[0]))


def _literal(term: BaseExpr) -> Any:
    return get_literal_value(term)  # type: ignore[call-overload]  # of the primitives only


@functools.lru_cache(maxsize=65_536)
def with_common_variables(expression: Expression) -> Expression:
    """The same value, its bound variables named alike wherever they may be, also one within another that does not occur
    there: equal sub-expressions are then equal."""
    expression = replace(expression, {child: with_common_variables(child) for child in children(expression)})
    if not isinstance(expression, Reduce | Contract):
        return expression
    variable = expression.variable
    # A name that is bound within, around this variable, would capture it.
    taken = {symbol for child in children(expression) for symbol in free_symbols(child)}
    taken |= {
        part.variable
        for child in children(expression)
        for part in walk(child)
        if isinstance(part, Reduce | Contract) and variable in free_symbols(part)
    }
    name = next(name for name in map(_bound, itertools.count()) if name not in taken - {variable})
    return _bind(expression, name, *(rename(child, {variable: name}) for child in children(expression)))


def with_own_variables(expression: Expression, names: Mapping[sympy.Symbol, sympy.Symbol] = _NO_NAMES) -> Expression:
    """The same value, no variable bound within another of its name: as those who move parts of it need it."""
    if not isinstance(expression, Reduce | Contract):
        if not children(expression):
            return rename(expression, names)
        return replace(expression, {child: with_own_variables(child, names) for child in children(expression)})
    name = _bound(_height(expression))
    inner = {**names, expression.variable: name}
    return _bind(expression, name, *(with_own_variables(child, inner) for child in children(expression)))


@functools.lru_cache(maxsize=65_536)
def _height(expression: Expression) -> int:
    """How many variables are bound one within another."""
    inner = max((_height(child) for child in children(expression)), default=0)
    return inner + isinstance(expression, Reduce | Contract)


def _bound(number: int) -> sympy.Symbol:
    return loop_symbol(f"b{number}")


def _bind(expression: Reduce | Contract, variable: sympy.Symbol, *parts: Expression) -> Reduce | Contract:
    """The reduction or product over another variable, of these parts."""
    if isinstance(expression, Reduce):
        (body,) = parts
        return Reduce(expression.kind, variable, expression.low, expression.high, body)
    left, right = parts
    return Contract(variable, expression.extent, left, right, expression.element_type)
