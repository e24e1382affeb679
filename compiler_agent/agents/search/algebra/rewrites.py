"""Rewrites between expressions, each with what it does to rounding.

In exact arithmetic both sides are equal wherever the left one is finite. A variable of a reduction or of a product is
bound by it; `invariant(value, variable)` says that a value does not depend on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from egglog import Ruleset, String, eq, f64, relation, rewrite, rule, ruleset, var

from compiler_agent.agents.search.algebra.terms import Value, binary, constant, product, reduction, ternary, unary
from compiler_agent.agents.search.expressions import ReductionKind


class Accuracy(IntEnum):
    """Classes of rewrites by the rounding errors that they bring, the harmless first."""

    EXACT = 0
    """No rounding more than before."""
    REASSOCIATED = 1
    """The same terms rounded in another order: a few units in the last place."""
    SHIFTED = 2
    """Differences of sums that are as large as the result where the row's first element is like the others."""
    CANCELLING = 3
    """Differences of sums that may be far larger than the result: digits go as the row's mean outgrows its spread."""


@dataclass(frozen=True, slots=True)
class Rewriting:
    name: str
    accuracy: Accuracy
    rules: Ruleset


invariant = relation("invariant", Value, String)
binds = relation("binds", String, String)
"""(domain, its variable)"""
counts = relation("counts", Value, String)
"""A value that is the number of a domain's places."""

_SUM, _MAX, _SUM_EXP = (kind.value for kind in (ReductionKind.SUM, ReductionKind.MAX, ReductionKind.SUM_EXP))
x, y, z, c, n = (var(name, Value) for name in "xyzcn")
f, d, v = (var(name, String) for name in "fdv")
number = var("number", f64)


def _mul(left: Value, right: Value) -> Value:
    return binary("mul", left, right)


def _div(left: Value, right: Value) -> Value:
    return binary("div", left, right)


def _sub(left: Value, right: Value) -> Value:
    return binary("sub", left, right)


def _add(left: Value, right: Value) -> Value:
    return binary("add", left, right)


def _sum(body: Value) -> Value:
    return reduction(_SUM, d, body)


SUPPORT = ruleset(
    # What does not depend on a variable. Facts about leaves come from the expressions.
    rule(eq(x).to(constant(number)), binds(d, v)).then(invariant(x, v)),
    rule(eq(x).to(unary(f, y)), invariant(y, v)).then(invariant(x, v)),
    rule(eq(x).to(binary(f, y, z)), invariant(y, v), invariant(z, v)).then(invariant(x, v)),
    rule(eq(x).to(ternary(f, y, z, c)), invariant(y, v), invariant(z, v), invariant(c, v)).then(invariant(x, v)),
    rule(eq(x).to(reduction(f, d, y)), binds(d, v)).then(invariant(x, v)),
    rule(eq(x).to(reduction(f, d, y)), invariant(y, v)).then(invariant(x, v)),
    rule(eq(x).to(product(d, y, z)), binds(d, v)).then(invariant(x, v)),
    rule(eq(x).to(product(d, y, z)), invariant(y, v), invariant(z, v)).then(invariant(x, v)),
    # Rounding does not know the order of two operands.
    rewrite(_mul(x, y)).to(_mul(y, x)),
    rewrite(_add(x, y)).to(_add(y, x)),
    name="support",
)


def _rewriting(name: str, accuracy: Accuracy, *rules: Any) -> Rewriting:
    return Rewriting(name, accuracy, ruleset(*rules, name=name.replace(" ", "_").replace("-", "_")))


def _all() -> Iterator[Rewriting]:
    exact, reassociated = Accuracy.EXACT, Accuracy.REASSOCIATED
    one_plus_exp = _add(constant(1.0), unary("exp", unary("neg", y)))
    yield _rewriting(
        "x * sigmoid(y) as a quotient", exact, rewrite(_mul(x, unary("sigmoid", y))).to(_div(x, one_plus_exp))
    )
    yield _rewriting("x * (1 / y) as a quotient", exact, rewrite(_mul(x, _div(constant(1.0), y))).to(_div(x, y)))
    yield _rewriting(
        "products regrouped",
        reassociated,
        rewrite(_mul(_mul(x, y), z)).to(_mul(x, _mul(y, z))),
        rewrite(_mul(_div(x, y), z)).to(_div(_mul(x, z), y)),
        rewrite(_div(_mul(x, z), y)).to(_mul(_div(x, y), z)),
    )
    yield _rewriting(
        "factors out of sums",
        reassociated,
        rewrite(_sum(_mul(c, x))).to(_mul(c, _sum(x)), binds(d, v), invariant(c, v)),
        rewrite(_sum(_div(x, c))).to(_div(_sum(x), c), binds(d, v), invariant(c, v)),
    )
    yield _rewriting(
        "factors out of products",
        reassociated,
        rewrite(product(d, _mul(c, x), y)).to(_mul(c, product(d, x, y)), binds(d, v), invariant(c, v)),
        rewrite(product(d, _div(x, c), y)).to(_div(product(d, x, y), c), binds(d, v), invariant(c, v)),
    )
    shifted = _sub(x, y)
    mean_around = _add(y, _div(_sum(shifted), n))
    deviation = _sub(x, mean_around)
    yield _rewriting(
        "variance in one pass around the first element",
        Accuracy.SHIFTED,
        rewrite(_sum(_mul(deviation, deviation))).to(
            _sub(_sum(_mul(shifted, shifted)), _div(_mul(_sum(shifted), _sum(shifted)), n)),
            counts(n, d),
            binds(d, v),
            invariant(y, v),
        ),
    )
    plain = _sub(x, _div(_sum(x), n))
    yield _rewriting(
        "variance as mean of squares less square of mean",
        Accuracy.CANCELLING,
        rewrite(_sum(_mul(plain, plain))).to(_sub(_sum(_mul(x, x)), _div(_mul(_sum(x), _sum(x)), n)), counts(n, d)),
    )
    yield _rewriting(
        "mean without a shift",
        Accuracy.CANCELLING,
        rewrite(_div(_sum(_sub(x, y)), n)).to(_sub(_div(_sum(x), n), y), counts(n, d), binds(d, v), invariant(y, v)),
        rewrite(_add(y, _sub(x, y))).to(x),
    )
    yield _rewriting(
        "maximum and sum of exponentials in one pass",
        reassociated,
        rewrite(_sum(unary("exp", _sub(x, reduction(_MAX, d, x))))).to(reduction(_SUM_EXP, d, x)),
    )


REWRITINGS = tuple(_all())
