"""Variants: what else computes the same values, by how much accuracy it may cost."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from egglog import BaseExpr, EGraph, String, eq, get_callable_fn, unstable_combine_rulesets

from compiler_agent.agents.search.algebra.rewrites import (
    REWRITINGS,
    SUPPORT,
    Accuracy,
    Rewriting,
    binds,
    counts,
    invariant,
)
from compiler_agent.agents.search.algebra.terms import (
    Table,
    constant,
    from_term,
    leaf,
    name_of,
    product,
    reduction,
    to_term,
    with_common_variables,
    with_own_variables,
)
from compiler_agent.agents.search.expressions import (
    TRANSCENDENTAL,
    Apply,
    Constant,
    Contract,
    Expression,
    Reduce,
    SizeValue,
    children,
    free_symbols,
)

AS_WRITTEN = "as_written"
ROUNDS = 8
"""Of all rewrites; the ops of language models are saturated after four or five."""
MOST_TERMS = 20_000
"""An e-graph that has grown beyond is searched as it is."""
OPERATIONS = {"div": 4, "sqrt": 4, "rsqrt": 8, "sigmoid": 26, "sum_exp": 22}
"""Of vectors, about, where it is neither one nor a transcendental's 20."""


@dataclass(frozen=True, slots=True)
class Variant:
    values: tuple[Expression, ...]
    rewrites: tuple[str, ...]
    """A smallest set under which the values are still found equal to the original ones: each of them is needed."""


def variants(values: Sequence[Expression]) -> Mapping[str, Variant]:
    """By name of the accuracy class, the cheapest values that rewrites up to it lead to; only what is cheaper than in
    the classes before. The original is not among them."""
    original = tuple(with_common_variables(value) for value in values)
    found: dict[str, Variant] = {}
    least = _total(original)
    for accuracy in Accuracy:
        allowed = [rewriting for rewriting in REWRITINGS if rewriting.accuracy <= accuracy]
        cheapest = _Saturated(original, allowed).cheapest()
        if (cost := _total(cheapest)) < least:
            own = tuple(with_own_variables(value) for value in cheapest)
            found[accuracy.name.lower()] = Variant(own, _needed(original, cheapest, allowed))
            least = cost
    return found


def _needed(
    original: tuple[Expression, ...], other: tuple[Expression, ...], allowed: list[Rewriting]
) -> tuple[str, ...]:
    needed = allowed
    for rewriting in allowed:
        fewer = [each for each in needed if each is not rewriting]
        if _Saturated(original, fewer).holds(other):
            needed = fewer
    return tuple(rewriting.name for rewriting in needed)


class _Saturated:
    """The e-graph of some values under some rewrites."""

    def __init__(self, values: Sequence[Expression], rewritings: Iterable[Rewriting]) -> None:
        self._table, self._graph = Table(), EGraph()
        self._roots = [to_term(value, self._table) for value in values]
        self._graph.register(*self._roots)
        self._state_facts()
        rules = unstable_combine_rulesets(SUPPORT, *(rewriting.rules for rewriting in rewritings))
        for _ in range(ROUNDS):
            grown = sum(size for _, size in self._graph.all_function_sizes())
            if not self._graph.run(rules).updated or grown > MOST_TERMS:
                break

    def cheapest(self) -> tuple[Expression, ...]:
        each = (self._graph.extract(root, include_cost=True, cost_model=_cost_of_term) for root in self._roots)
        return tuple(from_term(term, self._table) for term, _ in each)

    def holds(self, others: Sequence[Expression]) -> bool:
        """Whether each value has been found equal to its other form."""
        pairs = zip(self._roots, others, strict=True)
        return self._graph.check_bool(*(eq(root).to(to_term(other, self._table)) for root, other in pairs))

    def _state_facts(self) -> None:
        """What rules cannot find in names: what binds which variable, what does not depend on it, what counts it."""
        for name, domain in self._table.domains.items():
            self._graph.register(binds(String(name), String(str(domain.variable))))
            extent = domain.extent if isinstance(domain, Contract) else domain.high - domain.low
            counted = Constant(float(extent)) if extent.is_number else SizeValue(extent)
            self._graph.register(counts(to_term(counted, self._table), String(name)))
        for name, expression in self._table.leaves.items():
            for variable in self._table.variables() - free_symbols(expression):
                self._graph.register(invariant(leaf(name), String(str(variable))))


class _Cost(NamedTuple):
    """Sweeps over a row that wait for each other come first, then operations; a shared operation counts each time."""

    levels: int
    operations: int


_NOTHING = _Cost(0, 0)


def _cost_of_term(graph: EGraph, term: BaseExpr, parts: list[_Cost]) -> _Cost:
    made = get_callable_fn(term)
    if made is None or made == constant:
        return _NOTHING
    return _cost(name_of(term), made in (reduction, product), parts)


def _cost(name: str, is_sweep: bool, parts: Sequence[_Cost]) -> _Cost:
    own = OPERATIONS.get(name, 20 if name in TRANSCENDENTAL else 1)
    return _Cost(
        max((part.levels for part in parts), default=0) + is_sweep, sum(part.operations for part in parts) + own
    )


def _total(values: Iterable[Expression]) -> _Cost:
    each = [_cost_of(value) for value in values]
    return _Cost(max(cost.levels for cost in each), sum(cost.operations for cost in each))


def _cost_of(expression: Expression) -> _Cost:
    match expression:
        case Constant():
            return _NOTHING
        case Apply(function=name):
            own = name
        case Reduce(kind=kind):
            own = kind.value
        case _:
            own = ""
    return _cost(own, isinstance(expression, Reduce | Contract), [_cost_of(part) for part in children(expression)])
