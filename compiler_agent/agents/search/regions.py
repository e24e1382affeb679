"""The domain of an output cut into regions in which it has one expression with linear indices."""

from collections.abc import Iterator
from dataclasses import dataclass

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import TensorSpec
from compiler_agent.agents.search.expressions import Expression, Index, Size
from compiler_agent.agents.search.graph import symbolic_shape
from compiler_agent.agents.search.index_maps import CutNeeded, SplitNeeded, Unsupported, loop_symbol
from compiler_agent.agents.search.tensors import Tensor

MAX_REGIONS = 64


@dataclass(frozen=True, slots=True)
class Loop:
    variable: sympy.Symbol
    low: Size
    high: Size

    @property
    def extent(self) -> Size:
        return sympy.expand(self.high - self.low)


@dataclass(frozen=True, slots=True)
class Region:
    """A part of an output's domain in which it has one expression."""

    loops: tuple[Loop, ...]
    index: Index
    value: Expression


def regions_of(spec: TensorSpec, output: Tensor) -> Iterator[Region]:
    """The output's domain, loops in memory order, split and cut until every index is linear."""
    shape = symbolic_shape(spec)
    loops = tuple(
        Loop(loop_symbol(f"i{place}"), sympy.Integer(0), shape[dim])
        for place, dim in enumerate(spec.dim_order)
        if shape[dim] != 1
    )
    place_of = {dim: place for place, dim in enumerate(spec.dim_order)}
    index = tuple(loop_symbol(f"i{place_of[dim]}") if size != 1 else sympy.Integer(0) for dim, size in enumerate(shape))
    pending = [(loops, index)]
    tried = 0
    while pending:
        loops, index = pending.pop(0)
        tried += 1
        if tried > MAX_REGIONS:
            raise Unsupported(f"output {spec.name} falls into more than {MAX_REGIONS} regions")
        try:
            value = output.at(index, {loop.variable: (loop.low, loop.high) for loop in loops})
        except SplitNeeded as split:
            pending.insert(0, _split_loop(loops, index, split))
            continue
        except CutNeeded as cut:
            pending[:0] = [(part, index) for part in _cut_loop(loops, cut)]
            continue
        yield Region(loops, index, value)


def _split_loop(loops: tuple[Loop, ...], index: Index, split: SplitNeeded) -> tuple[tuple[Loop, ...], Index]:
    place = _place_of(split.variable, loops)
    loop = loops[place]
    outer, inner = loop_symbol(f"{loop.variable}o"), loop_symbol(f"{loop.variable}i")
    parts = (
        Loop(outer, sympy.Integer(0), sympy.cancel(loop.high / split.inner)),
        Loop(inner, sympy.Integer(0), split.inner),
    )
    finer = {loop.variable: outer * split.inner + inner}
    return (*loops[:place], *parts, *loops[place + 1 :]), tuple(sympy.expand(part.xreplace(finer)) for part in index)


def _cut_loop(loops: tuple[Loop, ...], cut: CutNeeded) -> Iterator[tuple[Loop, ...]]:
    place = _place_of(cut.variable, loops)
    loop = loops[place]
    for low, high in ((loop.low, cut.at), (cut.at, loop.high)):
        yield (*loops[:place], Loop(loop.variable, low, high), *loops[place + 1 :])


def _place_of(variable: sympy.Symbol, loops: tuple[Loop, ...]) -> int:
    for place, loop in enumerate(loops):
        if loop.variable == variable:
            return place
    raise Unsupported(f"a reduction over a dim that a view splits or merges ({variable})")
