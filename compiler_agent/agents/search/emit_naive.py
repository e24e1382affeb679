"""The plainest C++ of a program: scalar loops, one thread, nothing repacked; a starting point for people."""

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.candidate import Candidate, LanguageName
from candidates.task import ElementType
from compiler_agent.agents.search.emit_call import members_of
from compiler_agent.agents.search.emit_expressions import literal
from compiler_agent.agents.search.expressions import Apply, Constant, Contract, Expression, Load, Reduce, SizeValue
from compiler_agent.agents.search.formulas import INFIX, integer
from compiler_agent.agents.search.program import (
    COLUMN,
    CONTRACTED,
    FLAT_COLUMN,
    FLAT_ROW,
    ContractionStage,
    Program,
    Stage,
    Store,
)
from compiler_agent.agents.search.regions import Loop

_HEADER = r"""
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

// bfloat16 is the upper half of a float, rounded to nearest even.
[[maybe_unused]] static float from_bfloat16(uint16_t half) {
  const uint32_t bits = uint32_t(half) << 16;
  float x;
  memcpy(&x, &bits, 4);
  return x;
}
[[maybe_unused]] static uint16_t to_bfloat16(float x) {
  uint32_t bits;
  memcpy(&bits, &x, 4);
  return x != x ? 0x7fc0 : uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}
"""
_STEP = {"sum": "{result} += {value};", "max": "if ({result} < {value} || {value} != {value}) {result} = {value};"}
_STEP["min"] = "if ({result} > {value} || {value} != {value}) {result} = {value};"
_CALLS = {
    "maximum": "({0} > {1} || {0} != {0} ? {0} : {1})",
    "minimum": "({0} < {1} || {0} != {0} ? {0} : {1})",
    "where": "({0} ? {1} : {2})",
    "neg": "(-{0})",
    "abs": "std::fabs({0})",
    "rsqrt": "(1.0f / std::sqrt({0}))",
    "one_plus_erf": "(1.0f + std::erf({0}))",
    "sigmoid": "(1.0f / (1.0f + std::exp(-{0})))",
    "nonzero": "({0} != 0.0f)",
    "logical_not": "(!{0})",
}


def emit_naive(program: Program) -> Candidate:
    """Scratch buffers are vectors; every stage is one nest of loops."""
    members = list(members_of(program, has_prepared=False))
    parameters = ", ".join(f"{kind} {name}" for kind, name in members[: len(members) - len(program.scratch)])
    lines = [f"std::vector<float> {scratch.name}({integer(scratch.numel)});" for scratch in program.scratch]
    for stage in program.stages:
        lines += _stage(stage)
    body = "\n".join(f"  {line}" for line in lines)
    source = f'// {program.task.op}\n{_HEADER}\nextern "C" void kernel({parameters}) {{\n{body}\n}}\n'
    return Candidate(language=LanguageName.CPP, source=source)


def _stage(stage: Stage) -> list[str]:
    if isinstance(stage, ContractionStage):
        loops = (
            Loop(FLAT_ROW, sympy.Integer(0), stage.rows),
            Loop(FLAT_COLUMN, sympy.Integer(0), sympy.Integer(stage.columns)),
        )
        return _nested(loops, _stores(stage.stores, {}))
    lines: list[str] = []
    known: dict[Expression, str] = {}
    reductions: list[str] = []
    for piece in stage.pieces:
        stores = _stores(piece.stores, known, reductions)
        lines += _nested((Loop(COLUMN, piece.low, piece.high),), stores) if stage.has_columns else stores
    return _nested(stage.rows, [*reductions, *lines])


def _stores(stores: tuple[Store, ...], known: dict[Expression, str], before: list[str] | None = None) -> list[str]:
    lines: list[str] = []
    for store in stores:
        value = _code(store.value, known, lines if before is None else before)
        stored = f"to_bfloat16({value})" if store.element_type is ElementType.BFLOAT16 else value
        lines.append(f"{store.buffer}[{integer(store.address)}] = {stored};")
    return lines


def _code(expression: Expression, known: dict[Expression, str], before: list[str]) -> str:
    """An expression in parentheses; reductions that it needs are computed in `before`."""
    match expression:
        case Constant(value=number):
            return literal(number)
        case SizeValue(size=size):
            return f"float({integer(size)})"
        case Load(buffer=buffer, element_type=element_type, index=(address,)):
            element = f"{buffer}[{integer(address)}]"
            return f"from_bfloat16({element})" if element_type is ElementType.BFLOAT16 else f"float({element})"
        case Apply(function=function, arguments=arguments):
            codes = [_code(argument, known, before) for argument in arguments]
            if function in INFIX:
                return f"({codes[0]} {INFIX[function]} {codes[1]})"
            return _CALLS.get(function, f"std::{function}({', '.join(codes)})").format(*codes)
        case Reduce(kind=kind, low=low, high=high, body=body):
            if expression not in known:
                value = _code(body, known, before)
                result = f"{kind}{len(known)}"
                known[expression] = f"float({result})"
                step = _STEP[kind].format(result=result, value=value)
                # Over a long row the rounding of a plain float sum is more than the judge allows.
                before.append(f"{'double' if kind == 'sum' else 'float'} {result} = {literal(kind.neutral)};")
                before += _nested((Loop(COLUMN, low, high),), [step])
            return known[expression]
        case Contract(extent=extent, left=left, right=right):
            product = f"{_code(left, known, before)} * {_code(right, known, before)}"
            before.append("double product = 0.0;")
            before += _nested((Loop(CONTRACTED, sympy.Integer(0), extent),), [f"product += {product};"])
            return "float(product)"
    raise AssertionError(f"no code for {type(expression).__name__}")


def _nested(loops: tuple[Loop, ...], body: list[str]) -> list[str]:
    for loop in reversed(loops):
        name = loop.variable
        header = f"for (int64_t {name} = {integer(loop.low)}; {name} < {integer(loop.high)}; ++{name}) {{"
        body = [header, *[f"  {line}" for line in body], "}"]
    return body
