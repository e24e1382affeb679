"""The program of a task: its graph cut into stages, each of them one loop nest.

A map stage computes every output element from inputs and from reductions of its own row; a contraction stage is a
matrix product with a parameter and whatever elementwise work follows it. A value that a contraction needs whole
(its left side), or that needs a contraction whole, goes through a scratch buffer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType, KernelTask
from compiler_agent.agents.search.expressions import Contract, Expression, Load, Size, rename, walk
from compiler_agent.agents.search.index_maps import loop_symbol
from compiler_agent.agents.search.regions import Loop

COLUMN = loop_symbol("j")
"""The variable of the innermost loop of a map stage, and of every reduction in it."""
CONTRACTED = loop_symbol("k")
FLAT_ROW, FLAT_COLUMN = loop_symbol("m"), loop_symbol("n")
"""Row and column of a contraction stage."""


@dataclass(frozen=True, slots=True)
class NoProgram:
    """The graph leaves the class of programs that this agent writes."""

    reason: str


@dataclass(frozen=True, slots=True)
class Store:
    """`value` goes to `buffer` at a linear address; loads in `value` have linear addresses too."""

    buffer: str
    element_type: ElementType
    address: sympy.Expr
    value: Expression


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of columns in which every output has one expression."""

    low: Size
    high: Size
    stores: tuple[Store, ...]


@dataclass(frozen=True, slots=True)
class MapStage:
    rows: tuple[Loop, ...]
    pieces: tuple[Piece, ...]
    has_columns: bool
    """False where each row gives one value: the pieces then hold one piece [0, 1)."""


@dataclass(frozen=True, slots=True)
class ContractionStage:
    """stores[m, n] with `contract` summed over CONTRACTED; loads and stores are linear in FLAT_ROW and FLAT_COLUMN."""

    rows: Size
    columns: int
    depth: int
    contract: Contract
    stores: tuple[Store, ...]


Stage = MapStage | ContractionStage


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer of the program's own, dense, row-major."""

    name: str
    element_type: ElementType
    shape: tuple[Size, ...]

    @property
    def numel(self) -> Size:
        return sympy.expand(sympy.prod(self.shape))


@dataclass(frozen=True, slots=True)
class Program:
    task: KernelTask
    scratch: tuple[Scratch, ...]
    stages: tuple[Stage, ...]
    rewrites: tuple[str, ...] = ()
    """Of the algebra that led here from the graph as it is written."""
    others: Mapping[str, "Program"] = field(default_factory=dict)
    """Programs for the same function, by the class of accuracy that rewrites to them cost."""

    def under(self, algebra: str) -> "Program":
        """The one of this class; this one where there is none."""
        return self.others.get(algebra, self)

    def expressions(self) -> Iterator[Expression]:
        """All that its stages store, with what lies below."""
        for stage in self.stages:
            pieces = (stage,) if isinstance(stage, ContractionStage) else stage.pieces
            for store in (store for piece in pieces for store in piece.stores):
                yield from walk(store.value)


def collapse(loops: tuple[Loop, ...], stores: tuple[Store, ...]) -> tuple[tuple[Loop, ...], tuple[Store, ...]]:
    """Adjacent loops that every address walks as one become one loop; the inner one's variable stays."""
    place = 0
    while place + 1 < len(loops):
        outer, inner = loops[place], loops[place + 1]
        addresses = {store.address for store in stores} | {
            part.index[0] for store in stores for part in walk(store.value) if isinstance(part, Load)
        }
        is_one_walk = (outer.low, inner.low) == (0, 0) and all(
            sympy.expand(address.coeff(outer.variable) - address.coeff(inner.variable) * inner.high) == 0
            for address in addresses
        )
        if not is_one_walk:
            place += 1
            continue
        merged = Loop(inner.variable, sympy.Integer(0), sympy.expand(outer.high * inner.high))
        stores = tuple(
            Store(
                store.buffer,
                store.element_type,
                store.address.xreplace({outer.variable: sympy.Integer(0)}),
                rename(store.value, {outer.variable: sympy.Integer(0)}),
            )
            for store in stores
        )
        loops = (*loops[:place], merged, *loops[place + 2 :])
        place = max(place - 1, 0)
    return loops, stores
