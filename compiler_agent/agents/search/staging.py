"""From the graph to a program: which stages, in which order, through which scratch buffers."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType, InputRole, KernelTask, TensorSpec
from compiler_agent.agents.search.algebra.variants import variants
from compiler_agent.agents.search.emitted_names import with_emitted_names
from compiler_agent.agents.search.expressions import (
    Constant,
    Contract,
    Expression,
    Index,
    Load,
    Reduce,
    Size,
    children,
    free_symbols,
    rename,
    replace,
    walk,
)
from compiler_agent.agents.search.graph import symbolic_shape, trace_task
from compiler_agent.agents.search.index_maps import Unsupported, axis_symbol, loop_symbol
from compiler_agent.agents.search.program import (
    COLUMN,
    CONTRACTED,
    FLAT_COLUMN,
    FLAT_ROW,
    ContractionStage,
    MapStage,
    NoProgram,
    Piece,
    Program,
    Scratch,
    Stage,
    Store,
    collapse,
)
from compiler_agent.agents.search.regions import Loop, Region, regions_of

SCRATCH = "scratch"


def write_program(task: KernelTask, *, narrow_products: bool = False) -> Program | NoProgram:
    """The program of the task's graph, or why there is none.

    With `narrow_products` the left side of a matrix product comes in the element type that PyTorch multiplies in, as
    matrix units want it; without, in float32.
    """
    task = with_emitted_names(task)
    try:
        graph = trace_task(task)
        regions = [
            (spec, region)
            for spec, output in zip(task.outputs, graph.outputs, strict=True)
            for region in regions_of(spec, output)
        ]
        program = _program(task, regions, narrow_products)
    except Unsupported as unsupported:
        return NoProgram(str(unsupported))
    others: dict[str, Program] = {}
    for name, variant in variants([region.value for _, region in regions]).items():
        changed = [
            (spec, Region(region.loops, region.index, value))
            for (spec, region), value in zip(regions, variant.values, strict=True)
        ]
        with contextlib.suppress(Unsupported):  # what has no stages is no program
            others[name] = dataclasses.replace(_program(task, changed, narrow_products), rewrites=variant.rewrites)
    return dataclasses.replace(program, others=others)


def _program(task: KernelTask, regions: Iterable[tuple[TensorSpec, Region]], narrow_products: bool) -> Program:
    builder = _Builder(task, narrow_products)
    for spec, region in regions:
        builder.add(spec.name, spec.element_type, region)
    return builder.finish()


@dataclass
class _Builder:
    """Collects stages in an order in which every scratch buffer is written before it is read."""

    task: KernelTask
    narrow_products: bool
    scratch: list[Scratch] = field(default_factory=list)
    stages: list[Stage] = field(default_factory=list)
    regions: list[tuple[str, ElementType, Region]] = field(default_factory=list)
    known: dict[tuple[Expression, Index, ElementType], str] = field(default_factory=dict)

    def add(self, buffer: str, element_type: ElementType, region: Region) -> None:
        """A region of an output; regions with the same loops become one nest in `finish`."""
        value = region.value
        contracts = _outermost_contracts(value)
        if contracts:
            stage = self._contraction(buffer, element_type, region)
            if stage is not None:
                self.stages.append(stage)
                return
            if value == contracts[0] and buffer.startswith(SCRATCH):
                raise Unsupported("a matrix product whose rows or columns are no single walk through memory")
            value = replace(
                value, {each: self._materialise(each, _rows_first(region.loops, each)) for each in contracts}
            )
        self.regions.append((buffer, element_type, Region(region.loops, region.index, value)))

    def finish(self) -> Program:
        self._flush()
        return Program(self.task, tuple(self.scratch), tuple(self.stages))

    def _flush(self) -> None:
        groups: dict[tuple[Loop, ...], list[tuple[str, ElementType, Region]]] = {}
        for buffer, element_type, region in self.regions:
            groups.setdefault(region.loops[:-1], []).append((buffer, element_type, region))
        self.regions.clear()
        for members in groups.values():
            self.stages.extend(self._map_stages(members))

    def _map_stages(self, members: list[tuple[str, ElementType, Region]]) -> Iterator[MapStage]:
        """Members share all loops but the innermost."""
        pieces: dict[Loop | None, list[Store]] = {}
        for buffer, element_type, region in members:
            last = region.loops[-1] if region.loops else None
            store = Store(buffer, element_type, self._address(buffer, region.index), self._linear(region.value))
            pieces.setdefault(last, []).append(store)
        rows = members[0][2].loops[:-1]
        scalar_rows = {last for last, stores in pieces.items() if last is None or _reduces_with(last.variable, stores)}
        for last in scalar_rows:
            whole = rows if last is None else (*rows, last)
            yield _map_stage(whole, (Piece(sympy.Integer(0), sympy.Integer(1), tuple(pieces.pop(last))),), False)
        # Pieces that together fill one range share a nest; of two outputs of different width each gets its own.
        while pieces:
            first = next(iter(pieces))
            assert first is not None
            chosen = [first]
            for other in pieces:
                if other is not None and all(_are_apart(other, taken) for taken in chosen):
                    chosen.append(other)
            parts = tuple(
                Piece(loop.low, loop.high, tuple(_with_column(store, loop.variable) for store in pieces.pop(loop)))
                for loop in chosen
            )
            yield _map_stage(rows, parts, True)

    def _contraction(self, buffer: str, element_type: ElementType, region: Region) -> ContractionStage | None:
        """The region as a product with elementwise work after it; None where the product needs a buffer."""
        *others, contract = _outermost_contracts(region.value)
        value = region.value
        for other in others:
            value = replace(value, {other: self._materialise(other, _rows_first(region.loops, other))})
        right = contract.right
        of_columns = free_symbols(right)
        rows_alone = tuple(loop for loop in region.loops if loop.variable not in of_columns)
        for part in _outermost_row_values(value, {loop.variable for loop in rows_alone}):
            value = replace(value, {part: self._materialise(part, rows_alone)})
        around = replace(value, {contract: Constant(0.0)})
        if any(isinstance(part, Reduce) for part in walk(around)):
            return None
        if not (isinstance(right, Load) and self._is_parameter(right.buffer)):
            raise Unsupported("a product of two activations")
        if not contract.extent.is_number:
            raise Unsupported("a product over an axis that varies")
        columns = [loop for loop in region.loops if loop.variable in free_symbols(right)]
        rows = [loop for loop in region.loops if loop not in columns]
        if region.loops[len(rows) :] != tuple(columns) or any(loop.low != 0 for loop in region.loops):
            return None
        loops = (*rows, Loop(contract.variable, sympy.Integer(0), contract.extent))
        direct = contract.left
        kind = contract.element_type if self.narrow_products else ElementType.FLOAT32
        is_plain = isinstance(direct, Load) and direct.element_type is kind
        for left in ([direct] if is_plain else []) + [None]:
            if left is None:
                left = self._materialise(direct, loops, kind)
            product = Contract(contract.variable, contract.extent, left, right, contract.element_type)
            stage = self._flat_contraction(
                buffer, element_type, region.index, replace(value, {contract: product}), rows, columns
            )
            if stage is not None:
                return stage
        return None

    def _flat_contraction(
        self,
        buffer: str,
        element_type: ElementType,
        index: Index,
        value: Expression,
        rows: list[Loop],
        columns: list[Loop],
    ) -> ContractionStage | None:
        linear = self._linear(value)
        (bound,) = [part for part in walk(linear) if isinstance(part, Contract)]
        k = {bound.variable: CONTRACTED}
        left, right = rename(bound.left, k), rename(bound.right, k)
        unbound = Contract(CONTRACTED, bound.extent, left, right, bound.element_type)
        stores: tuple[Store, ...] = (
            Store(buffer, element_type, self._address(buffer, index), replace(linear, {bound: unbound})),
        )
        flat_rows, stores = collapse(tuple(rows), stores)
        flat_columns, stores = collapse(tuple(columns), stores)
        if len(flat_rows) > 1 or len(flat_columns) != 1:
            return None
        names = {flat_columns[0].variable: FLAT_COLUMN} | {loop.variable: FLAT_ROW for loop in flat_rows}
        store = _renamed(stores[0], names)
        (contract,) = [part for part in walk(store.value) if isinstance(part, Contract)]
        assert isinstance(contract.left, Load)
        if contract.left.index[0].coeff(CONTRACTED) != 1 or not flat_columns[0].high.is_number:
            return None
        return ContractionStage(
            rows=flat_rows[0].high if flat_rows else sympy.Integer(1),
            columns=int(flat_columns[0].high),
            depth=int(contract.extent),
            contract=contract,
            stores=(store,),
        )

    def _materialise(
        self, value: Expression, scope: tuple[Loop, ...], element_type: ElementType = ElementType.FLOAT32
    ) -> Load:
        """A scratch buffer with `value` for every point of the loops of `scope` that it depends on."""
        loops = tuple(loop for loop in scope if loop.variable in free_symbols(value))
        unknown = {
            symbol
            for symbol in free_symbols(value) - {loop.variable for loop in loops}
            if symbol not in {axis_symbol(axis) for axis in self.task.axes}
        }
        if unknown:
            raise Unsupported("a matrix product inside a reduction over its columns")
        dims = tuple(loop_symbol(f"s{place}") for place in range(len(loops)))
        canonical = rename(value, {loop.variable: dim + loop.low for loop, dim in zip(loops, dims, strict=True)})
        shape = tuple(loop.extent for loop in loops)
        index = tuple(sympy.expand(loop.variable - loop.low) for loop in loops)
        name = self.known.get((canonical, shape, element_type))
        if name is None:
            name = f"{SCRATCH}{len(self.scratch)}"
            self.known[canonical, shape, element_type] = name
            self.scratch.append(Scratch(name, element_type, shape))
            finer = tuple(Loop(dim, sympy.Integer(0), size) for dim, size in zip(dims, shape, strict=True))
            inner = _Builder(self.task, self.narrow_products, self.scratch, self.stages, known=self.known)
            inner.add(name, element_type, Region(finer, dims, canonical))
            inner._flush()
        return Load(name, element_type, index)

    def _is_parameter(self, buffer: str) -> bool:
        return any(spec.name == buffer for spec in self.task.inputs_of(InputRole.PARAMETER))

    def _strides(self, buffer: str) -> tuple[Size, ...]:
        for spec in (*self.task.inputs, *self.task.outputs):
            if spec.name == buffer:
                return _dense_strides(symbolic_shape(spec), spec.dim_order)
        shape = next(scratch.shape for scratch in self.scratch if scratch.name == buffer)
        return _dense_strides(shape, tuple(range(len(shape))))

    def _address(self, buffer: str, index: Index) -> sympy.Expr:
        strides = self._strides(buffer)
        return sympy.expand(sum((part * stride for part, stride in zip(index, strides, strict=True)), sympy.Integer(0)))

    def _linear(self, value: Expression) -> Expression:
        loads = {part for part in walk(value) if isinstance(part, Load)}
        return replace(
            value,
            {load: Load(load.buffer, load.element_type, (self._address(load.buffer, load.index),)) for load in loads},
        )


def _dense_strides(shape: tuple[Size, ...], dim_order: tuple[int, ...]) -> tuple[Size, ...]:
    strides = [sympy.Integer(1)] * len(shape)
    step = sympy.Integer(1)
    for dim in reversed(dim_order):
        strides[dim] = step
        step = step * shape[dim]
    return tuple(strides)


def _outermost_contracts(value: Expression) -> list[Contract]:
    nested: set[Expression] = set()
    contracts = [part for part in walk(value) if isinstance(part, Contract)]
    for contract in contracts:
        for side in (contract.left, contract.right):
            nested |= {part for part in walk(side) if isinstance(part, Contract)}
    return sorted((contract for contract in contracts if contract not in nested), key=lambda part: str(part.variable))


def _outermost_row_values(value: Expression, rows: set[sympy.Symbol]) -> list[Expression]:
    """The largest parts, outside of products, that reduce something and then depend on row loops alone."""
    if isinstance(value, Contract):
        return []
    has_reduction = any(isinstance(part, Reduce) for part in walk(value))
    is_of_rows = not any(isinstance(part, Contract) for part in walk(value)) and _loops_of(value) <= rows
    if has_reduction and is_of_rows:
        return [value]
    parts = () if isinstance(value, Reduce) else children(value)
    return list(dict.fromkeys(each for part in parts for each in _outermost_row_values(part, rows)))


def _loops_of(value: Expression) -> frozenset[sympy.Symbol]:
    return frozenset(symbol for symbol in free_symbols(value) if symbol.is_nonnegative and not symbol.is_positive)


def _rows_first(loops: tuple[Loop, ...], contract: Contract) -> tuple[Loop, ...]:
    """The loops with those of the product's columns innermost."""
    columns = free_symbols(contract.right)
    return tuple(sorted(loops, key=lambda loop: loop.variable in columns))


def _reduces_with(variable: sympy.Symbol, stores: list[Store]) -> bool:
    """A reduction differs from column to column: the column is a row of its own."""
    return any(
        variable in free_symbols(part) for store in stores for part in walk(store.value) if isinstance(part, Reduce)
    )


def _are_apart(one: Loop, other: Loop) -> bool:
    return bool(one.high == other.low or other.high == one.low)


def _renamed(store: Store, names: dict[sympy.Symbol, sympy.Symbol]) -> Store:
    return Store(store.buffer, store.element_type, store.address.xreplace(names), rename(store.value, names))


def _with_column(store: Store, variable: sympy.Symbol) -> Store:
    return _renamed(store, {variable: COLUMN})


def _with_column_reductions(value: Expression) -> Expression:
    """Every reduction runs over COLUMN: equal reductions become equal, and passes can share what they compute."""
    inner = {part: None for part in walk(value) if isinstance(part, Reduce)}
    replacements: dict[Expression, Expression] = {}
    for reduction in sorted(inner, key=lambda part: sum(1 for _ in walk(part))):
        body = replace(reduction.body, replacements)
        if any(reduction.variable in free_symbols(part) for part in walk(body) if isinstance(part, Reduce)):
            raise Unsupported("a reduction inside a reduction over another dim")
        body = rename(body, {reduction.variable: COLUMN})
        replacements[reduction] = Reduce(reduction.kind, COLUMN, reduction.low, reduction.high, body)
    return replace(value, replacements)


def _map_stage(rows: tuple[Loop, ...], pieces: tuple[Piece, ...], has_columns: bool) -> MapStage:
    stores = tuple(
        Store(store.buffer, store.element_type, store.address, _with_column_reductions(store.value))
        for piece in pieces
        for store in piece.stores
    )
    can_flatten = (
        len(pieces) == 1
        and has_columns
        and pieces[0].low == 0
        and not any(isinstance(part, Reduce) for store in stores for part in walk(store.value))
    )
    if can_flatten:
        loops, stores = collapse((*rows, Loop(COLUMN, sympy.Integer(0), pieces[0].high)), stores)
        rows, last = loops[:-1], loops[-1]
        stores = tuple(_with_column(store, last.variable) for store in stores)
        pieces = (Piece(last.low, last.high, stores),)
    rows, stores = collapse(rows, stores)
    remaining = iter(stores)
    pieces = tuple(Piece(piece.low, piece.high, tuple(next(remaining) for _ in piece.stores)) for piece in pieces)
    return MapStage(rows, pieces, has_columns)
