"""Emission of a map stage: rows shared out to threads, a row's reductions pass by pass, then its outputs."""

from collections.abc import Iterable, Iterator

import sympy  # type: ignore[import-untyped]  # ships no types

from compiler_agent.agents.search.emit_call import unpacked
from compiler_agent.agents.search.emit_expressions import Scope, literal
from compiler_agent.agents.search.expressions import (
    CONDITIONS,
    Apply,
    Expression,
    ReductionKind,
    Size,
    children,
    free_symbols,
    operation_cost,
)
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.index_maps import is_nonnegative
from compiler_agent.agents.search.passes import CHAIN_STEPS, Pass, passes_of
from compiler_agent.agents.search.program import COLUMN, MapStage, Piece, Program
from compiler_agent.agents.search.schedule import Schedule

STACK_COLUMNS = 8192
"""Rows up to this long keep their intermediate values on the stack."""
_COMBINE = {"sum": "Sum", "max": "Max", "min": "Min"}


def emit_map_stage(
    name: str, stage: MapStage, program: Program, schedule: Schedule, *, scratch_slot: int
) -> tuple[str, str]:
    """The stage's function and the statement that calls it."""
    stores = [store for piece in stage.pieces for store in piece.stores]
    passes = passes_of(stores)
    is_flat = not stage.rows and stage.has_columns and not passes and len(stage.pieces) == 1
    kept, arrays = _kept_values(name, stage, passes, schedule, scratch_slot)
    row_lines: list[str] = []
    scope = Scope(COLUMN if stage.has_columns else None, row_lines, kept_in=kept)
    inner_reductions = Scope(COLUMN, row_lines, scope.outer_names, scope.pointers, kept_in=kept, written=scope.written)
    for number, one_pass in enumerate(passes):
        row_lines.extend(_emit_pass(f"p{number}", one_pass, inner_reductions.pass_over(), schedule))
    body = list(_emit_pieces(stage, scope, schedule, "begin" if is_flat else None))
    lines = row_lines + body
    outputs = {store.buffer for store in stores}
    if is_flat:
        loops = lines
        count, grain = stage.pieces[0].high, 1024
    else:
        loops, count = _row_loops(stage, lines)
        grain = 1
    head = [*unpacked(program, [*loops, *arrays], outputs), *arrays]
    cost = 2 + sum(operation_cost(store.value) for store in stores)
    work = integer(sympy.expand(sympy.prod([loop.high for loop in stage.rows]) * stage.pieces[-1].high * cost))
    comment = (
        f"// {name}: {', '.join(sorted(outputs))}; {len(passes)} pass(es) of reductions, {len(stage.pieces)} range(s)"
    )
    function = "\n".join(
        [comment, f"void {name}(const Call& call, int64_t begin, int64_t end) {{", *_indented(head + loops), "}\n"]
    )
    call = (
        f"share_out({integer(count)}, {grain}, {work} > {schedule.parallel_from_operations}, "
        f"[&](int64_t begin, int64_t end) {{ {name}(call, begin, end); }});"
    )
    return function, call


def _kept_values(
    name: str, stage: MapStage, passes: list[Pass], schedule: Schedule, scratch_slot: int
) -> tuple[dict[Expression, str], list[str]]:
    """Values that an earlier pass computes and a later one needs, each with its array, and the arrays' declarations."""
    first_seen: dict[Expression, tuple[Size, Size]] = {}
    kept: dict[Expression, tuple[Size, Size]] = {}

    def visit(expression: Expression, low: Size, high: Size, fresh: list[Expression]) -> None:
        if not isinstance(expression, Apply) or COLUMN not in free_symbols(expression):
            return
        if expression in first_seen and _covers(first_seen[expression], (low, high)):
            if expression.function not in CONDITIONS and operation_cost(expression) >= schedule.reuse_from_cost:
                kept[expression] = first_seen[expression]
                return
        else:
            fresh.append(expression)
        for child in children(expression):
            visit(child, low, high, fresh)

    roots = [(one.low, one.high, [reduction.body for reduction in one.reductions]) for one in passes]
    if stage.has_columns:
        roots += [(piece.low, piece.high, [store.value for store in piece.stores]) for piece in stage.pieces]
    for low, high, expressions in roots:
        fresh: list[Expression] = []
        for expression in expressions:
            visit(expression, low, high, fresh)
        if passes:
            first_seen.update(dict.fromkeys(fresh, (low, high)))
    names: dict[Expression, str] = {}
    declarations = []
    for place, (expression, (_, high)) in enumerate(kept.items()):
        array = f"kept{place}"
        names[expression] = array
        if high.is_number and high <= STACK_COLUMNS:
            declarations.append(f"alignas(64) float {array}[{integer(high)} + W];")
        else:
            declarations.append(f"float* {array} = scratch_of_thread<{scratch_slot + place}>({integer(high)} + W);")
    return names, declarations


def _covers(outer: tuple[Size, Size], inner: tuple[Size, Size]) -> bool:
    return is_nonnegative(inner[0] - outer[0]) and is_nonnegative(outer[1] - inner[1])


def _emit_pass(name: str, one: Pass, scope: Scope, schedule: Schedule) -> Iterator[str]:
    """The sweep that computes the pass's reductions; registers their results in the scope."""
    opening: list[str] = []
    updates: list[str] = []
    after_block: list[str] = []
    closing: list[str] = []
    is_long = _is_long(one, schedule)
    for place, reduction in enumerate(one.reductions):
        partial, result = f"{name}_{place}", f"{name}_{reduction.kind}{place}"
        if reduction.kind is ReductionKind.SUM_EXP:
            opening.append(f"SumExp {partial}[{schedule.unroll}];")
            value = scope.vector(reduction.body)
            updates.append(f"{partial}[u].take(kept(lanes, {value}, -INFINITY));")
            closing.append(f"const float {result} = total({partial});")
            scope.outer_names[reduction] = result
            continue
        combine, neutral = _COMBINE[reduction.kind], literal(reduction.kind.neutral)
        opening += [
            f"F {partial}[{schedule.unroll}];",
            f"repeat<{schedule.unroll}>([&](auto u) {{ {partial}[u] = splat({neutral}); }});",
        ]
        value = scope.vector(reduction.body)
        updates.append(f"{partial}[u] = {combine}::of({partial}[u], kept(lanes, {value}, {neutral}));")
        if is_long and reduction.kind is ReductionKind.SUM:
            opening.append(f"PairedSum {partial}_blocks;")
            after_block.append(f"{partial}_blocks.take({partial});")
            closing.append(f"const float {result} = {partial}_blocks.total();")
        else:
            closing.append(f"const float {result} = across<{combine}>({partial});")
        scope.outer_names[reduction] = result
    yield from opening
    span = f"{integer(one.low)}, {integer(one.high)}"
    sweep = f"sweep_blocks<{schedule.unroll}, {CHAIN_STEPS}>" if after_block else f"sweep<{schedule.unroll}>"
    yield f"{sweep}({span}, [&](int64_t j, auto lanes, auto u) INLINE_BODY {{"
    yield from _indented([*scope.lines, *updates])
    yield f"}}, [&]() INLINE_BODY {{ {' '.join(after_block)} }});" if after_block else "});"
    yield from closing


def _is_long(one: Pass, schedule: Schedule) -> bool:
    extent = sympy.expand(one.high - one.low)
    return not extent.is_number or int(extent) > CHAIN_STEPS * schedule.unroll * schedule.vector_width


def _emit_pieces(stage: MapStage, scope: Scope, schedule: Schedule, flat_begin: str | None) -> Iterator[str]:
    if not stage.has_columns:
        for store in stage.pieces[0].stores:
            name = scope.scalar(store.value)
            yield f"store_scalar({store.buffer} + {integer(store.address)}, {name});"
        return
    blocks: list[str] = []
    for piece in stage.pieces:
        inner = scope.pass_over()
        for store in piece.stores:
            inner.store(store)
        low, high = (flat_begin, "end") if flat_begin else (integer(piece.low), integer(piece.high))
        blocks.append(
            f"sweep<{_width(piece, schedule)}>({low}, {high}, [&](int64_t j, auto lanes, auto) INLINE_BODY {{"
        )
        blocks += [*_indented(inner.lines), "});"]
    yield from blocks


def _width(piece: Piece, schedule: Schedule) -> int:
    """Vectors per step: no more than the piece has."""
    extent = sympy.expand(piece.high - piece.low)
    if not extent.is_number:
        return schedule.unroll
    return max(1, min(schedule.unroll, int(extent) // schedule.vector_width))


def _row_loops(stage: MapStage, lines: list[str]) -> tuple[list[str], Size]:
    """Loops over this thread's rows. All but the last row loop are shared out as one, so that indices are decoded
    by division once per outer row only."""
    rows = stage.rows
    if not rows:
        return ["{", *_indented(lines), "}"], sympy.Integer(1)
    shared = rows[:-1] if len(rows) > 1 else rows
    count = sympy.expand(sympy.prod([loop.extent for loop in shared]))
    opening = ["for (int64_t row = begin; row < end; ++row) {"]
    decode = []
    rest = "row"
    for place in range(len(shared) - 1, -1, -1):
        loop = shared[place]
        extent = integer(loop.extent)
        index = rest if place == 0 else f"{rest} % ({extent})"
        decode.append(f"const int64_t {loop.variable} = {index}{_offset(loop.low)};")
        if place:
            decode.append(f"const int64_t rest{place} = {rest} / ({extent});")
            rest = f"rest{place}"
    inner = lines
    if len(rows) > 1:
        last = rows[-1]
        name = last.variable
        header = f"for (int64_t {name} = {integer(last.low)}; {name} < {integer(last.high)}; ++{name}) {{"
        inner = [header, *_indented(lines), "}"]
    return [*opening, *_indented([*decode, *inner]), "}"], count


def _offset(low: Size) -> str:
    return "" if low == 0 else f" + {integer(low)}"


def _indented(lines: Iterable[str]) -> list[str]:
    return [f"  {line}" for line in lines]
