"""Emission of a map stage in Triton: a tile of rows per program, a row's reductions pass by pass, then its outputs."""

from collections.abc import Iterable

import sympy  # type: ignore[import-untyped]  # ships no types

from compiler_agent.agents.search.emit_triton_expressions import TritonScope, literal
from compiler_agent.agents.search.emit_triton_launch import at_most, launched, power_of_2
from compiler_agent.agents.search.expressions import Load, Reduce, Size, walk
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.passes import CHAIN_STEPS, Pass, passes_of
from compiler_agent.agents.search.program import COLUMN, MapStage, Program
from compiler_agent.agents.search.triton_schedule import TritonSchedule

_ACROSS = {"sum": "tl.sum", "max": "max_over", "min": "min_over"}
_ADD_UP = {
    "sum": "{0} += {1}",
    "max": "{0} = tl.maximum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
    "min": "{0} = tl.minimum({0}, {1}, propagate_nan=tl.PropagateNan.ALL)",
}
Range = tuple[Size, Size]
MOST_STEP = 1 << 11
"""With a million columns, the most that a tile of Triton holds, 2^31 elements."""


def emit_map_stage(name: str, stage: MapStage, program: Program, schedule: TritonSchedule) -> tuple[str, list[str]]:
    """The stage's function and the statements of the host that run it."""
    nest = _Nest(stage, schedule)
    stores = [store for piece in stage.pieces for store in piece.stores]
    outputs = ", ".join(sorted({store.buffer for store in stores}))
    function, launch = launched(
        name,
        f"{outputs}; {len(nest.passes)} pass(es) of reductions, {len(stage.pieces)} range(s)",
        nest.body(),
        program,
        grid=nest.grid(),
        values={"count": integer(nest.count)},
        constants=nest.constants(),
        options={"num_warps": "LAUNCH_warps"},
    )
    return function, launch


class _Nest:
    """How the loops of one stage become a grid of programs and loops inside them."""

    def __init__(self, stage: MapStage, schedule: TritonSchedule) -> None:
        self.stage = stage
        self.passes = passes_of([store for piece in stage.pieces for store in piece.stores])
        self.is_flat = not stage.rows and stage.has_columns and not self.passes and len(stage.pieces) == 1
        self.block = schedule.block
        self.is_whole = bool(self.passes) and schedule.sweep == "whole"
        pieces = [(piece.low, piece.high) for piece in stage.pieces] if stage.has_columns else []
        self.ranges: list[Range] = list(dict.fromkeys([*((one.low, one.high) for one in self.passes), *pieces]))
        self.rank = 2 if stage.rows else 1
        self.is_wide = not self.is_flat and _steps_far(stage)
        self.lines: list[str] = []
        row_masks = {loop.variable: "in_rows" for loop in stage.rows}
        self.row = TritonScope(lines=self.lines, masks=row_masks, rank=self.rank)
        self.seen: dict[Range, TritonScope] = {}

    @property
    def count(self) -> Size:
        """Rows; of a stage without rows its columns."""
        if self.is_flat:
            return self.stage.pieces[0].high
        return sympy.expand(sympy.prod([loop.extent for loop in self.stage.rows]))

    def grid(self) -> list[str]:
        if self.is_flat:
            return [f"triton.cdiv({integer(self.count)}, {self._block()})"]
        rows = f"triton.cdiv({integer(self.count)}, {self._rows()})" if self.stage.rows else "1"
        if self.passes or not self.stage.has_columns:
            return [rows]
        return [rows, f"triton.cdiv({self._longest()}, {self._block()})"]

    def constants(self) -> dict[str, str]:
        constants = {"ROWS": self._rows()} if self.stage.rows else {}
        if self.is_whole:
            widths = {f"WIDTH{place}": high - low for place, (low, high) in enumerate(self.ranges)}
            return constants | {name: power_of_2(sympy.expand(width)) for name, width in widths.items()}
        return constants | ({"BLOCK": self._block()} if self.ranges else {})

    def body(self) -> list[str]:
        self._decode_rows()
        for number, one in enumerate(self.passes):
            self._reduce(number, one)
        if not self.stage.has_columns:
            for store in self.stage.pieces[0].stores:
                self.row.store(store)
        else:
            for piece in self.stage.pieces:
                inner, opening = self._open((piece.low, piece.high))
                for store in piece.stores:
                    inner.store(store)
                self._close(inner, opening)
        return self.lines

    def _decode_rows(self) -> None:
        rows = self.stage.rows
        if not rows:
            return
        first, *rest = rows
        linear = "row" if rest else str(first.variable)
        self.lines += [
            f"{linear} = tl.program_id(0).to(tl.int64) * ROWS + tl.arange(0, ROWS)[:, None]",
            f"in_rows = {linear} < count",
        ]
        for place in range(len(rows) - 1, -1, -1) if rest else ():
            extent = integer(rows[place].extent)
            extent = extent if extent.isalnum() else f"({extent})"
            index = linear if place == 0 else f"{linear} % {extent}"
            self.lines.append(f"{rows[place].variable} = {index}")
            if place:
                self.lines.append(f"{linear} = {linear} // {extent}")
        self.lines += [f"{loop.variable} += {integer(loop.low)}" for loop in rows if loop.low != 0]

    def _reduce(self, number: int, one: Pass) -> None:
        inner, opening = self._open((one.low, one.high))
        is_chained = self._is_long(one)
        before, after = [], []
        for place, reduction in enumerate(one.reductions):
            result = f"p{number}_{reduction.kind}{place}"
            self.row.names[reduction] = result
            neutral = literal(reduction.kind.neutral)
            value = f"tl.where({inner.masks[COLUMN]}, {inner.name(reduction.body)}, {neutral})"
            if self.is_whole:
                inner.lines.append(f"{result} = {self._across(reduction, value)}")
                continue
            start = f"tl.full({'(ROWS, BLOCK)' if self.rank == 2 else '(BLOCK,)'}, {neutral}, tl.float32)"
            self.lines.append(f"{result} = {start}")
            taken = result
            if is_chained and reduction.kind == "sum":
                taken = f"{result}_chain"
                before.append(f"{taken} = {start}")
                after.append(f"{result} += {taken}")
            inner.lines.append(_ADD_UP[reduction.kind].format(taken, value))
        if is_chained:
            low, high = integer(one.low), integer(one.high)
            steps = f"tl.minimum(chain + {CHAIN_STEPS} * BLOCK, {high})"
            body = [*before, f"for start in range(chain, {steps}, BLOCK):", *_indented(inner.lines), *after]
            self.lines += [f"for chain in range({low}, {high}, {CHAIN_STEPS} * BLOCK):", *_indented(body)]
        else:
            self._close(inner, opening)
        if not self.is_whole:
            results = {self.row.names[reduction]: reduction for reduction in one.reductions}
            self.lines += [f"{result} = {self._across(reduction, result)}" for result, reduction in results.items()]

    def _is_long(self, one: Pass) -> bool:
        """A sum in one chain of steps would lose too much to rounding."""
        extent = sympy.expand(one.high - one.low)
        is_short = extent.is_number and extent <= CHAIN_STEPS * self.block
        return not self.is_whole and not is_short and any(reduction.kind == "sum" for reduction in one.reductions)

    def _across(self, reduction: Reduce, value: str) -> str:
        return f"{_ACROSS[reduction.kind]}({value}, {self.rank - 1}){'[:, None]' if self.rank == 2 else ''}"

    def _open(self, span: Range) -> tuple[TritonScope, str | None]:
        """A scope over the columns of a range, and the head of the loop that its statements go into, if any."""
        if self.is_whole and span in self.seen:
            return self.seen[span], None
        low, high = span
        place = self.ranges.index(span)
        column, mask = f"j{place}", f"in_j{place}"
        start = "" if low == 0 else f"{integer(low)} + "
        opening = None
        lines = self.lines
        if self.is_flat:
            position = "tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)"
        elif self.is_whole:
            position = f"{start}tl.arange(0, WIDTH{place})"
        elif self.passes:
            opening, lines = f"for start in range({integer(low)}, {integer(high)}, BLOCK):", []
            position = "start + tl.arange(0, BLOCK)"
        else:
            position = f"{start}tl.program_id(1) * BLOCK + tl.arange(0, BLOCK)"
        if self.is_wide or self.rank == 2:
            position = f"({position})" if " + " in position else position
            position += ".to(tl.int64)" if self.is_wide else ""
            position += "[None, :]" if self.rank == 2 else ""
        lines += [f"{column} = {position}", f"{mask} = {column} < {'count' if self.is_flat else integer(high)}"]
        scope = TritonScope(
            lines=lines,
            masks={**self.row.masks, COLUMN: mask},
            spelled={COLUMN: column},
            rank=self.rank,
            column=COLUMN,
            row=self.row,
            numbers=self.row.numbers,
        )
        self.seen[span] = scope
        return scope, opening

    def _close(self, inner: TritonScope, opening: str | None) -> None:
        if opening is not None:
            self.lines += [opening, *_indented(inner.lines)]

    def _rows(self) -> str:
        """Rows per program: where nothing is reduced, as many as fill the tile that `block` asks for."""
        if self.passes:
            return "LAUNCH_rows"
        return f"LAUNCH_block // {self._block()}" if self.ranges else "LAUNCH_block"

    def _longest(self) -> str:
        extents = dict.fromkeys(sympy.expand(high - low) for low, high in self.ranges)
        numbers = [int(extent) for extent in extents if extent.is_number]
        codes = [integer(extent) for extent in extents if not extent.is_number]
        codes += [str(max(numbers))] if numbers else []
        return codes[0] if len(codes) == 1 else f"max({', '.join(codes)})"

    def _block(self) -> str:
        return at_most("block", self._longest())


def _steps_far(stage: MapStage) -> bool:
    """Columns lie so far apart, or maybe so, that 32 bits would not count the elements between the first and the last;
    rows are always counted in 64."""
    addresses = {store.address for piece in stage.pieces for store in piece.stores}
    values = [store.value for piece in stage.pieces for store in piece.stores]
    addresses |= {part.index[0] for value in values for part in walk(value) if isinstance(part, Load)}
    return any(not step.is_number or step > MOST_STEP for step in (each.coeff(COLUMN) for each in addresses))


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"    {line}" for line in lines]
