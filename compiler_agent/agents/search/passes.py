"""The reductions of a map stage, grouped into sweeps over the row."""

from dataclasses import dataclass

from compiler_agent.agents.search.expressions import Reduce, Size, walk
from compiler_agent.agents.search.program import Store

CHAIN_STEPS = 32
"""A longer sum is cut into chains of so many steps of its sweep: rounding errors of equal terms all point the same way,
and over one chain of a row of 4096 they exceed what PyTorch's sums, cut in a like way, allow."""


@dataclass(frozen=True, slots=True)
class Pass:
    """Reductions over one range of columns that depend on no reduction of the same pass."""

    low: Size
    high: Size
    reductions: tuple[Reduce, ...]


def passes_of(stores: list[Store]) -> list[Pass]:
    """In an order in which each finds what it needs."""
    reductions = {part for store in stores for part in walk(store.value) if isinstance(part, Reduce)}
    groups: dict[tuple[int, Size, Size], list[Reduce]] = {}
    for reduction in sorted(reductions, key=repr):
        groups.setdefault((_level(reduction), reduction.low, reduction.high), []).append(reduction)
    ordered = sorted(groups, key=lambda group: (group[0], str(group[1])))
    return [Pass(low, high, tuple(groups[level, low, high])) for level, low, high in ordered]


def _level(reduction: Reduce) -> int:
    return 1 + max((_level(part) for part in walk(reduction.body) if isinstance(part, Reduce)), default=0)
