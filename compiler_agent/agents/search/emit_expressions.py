"""C++ of scalar expressions: one constant per distinct sub-expression, row-invariant ones outside the column loop."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import sympy  # type: ignore[import-untyped]  # ships no types

from candidates.task import ElementType
from compiler_agent.agents.search.expressions import (
    Apply,
    Constant,
    Expression,
    Load,
    SizeValue,
    free_symbols,
    is_condition,
)
from compiler_agent.agents.search.formulas import INFIX, integer
from compiler_agent.agents.search.program import Store

STORAGE_TYPES = {
    ElementType.FLOAT32: "float",
    ElementType.BFLOAT16: "uint16_t",
    ElementType.FLOAT16: "uint16_t",
    ElementType.INT64: "int64_t",
    ElementType.INT32: "int32_t",
    ElementType.BOOL: "uint8_t",
}


def literal(value: float) -> str:
    if value != value:
        return "NAN"
    if value in (float("inf"), float("-inf")):
        return "INFINITY" if value > 0 else "(-INFINITY)"
    return f"{value!r}f" if value >= 0 else f"({value!r}f)"


@dataclass
class Scope:
    """Statements for the innermost variable `column`; what does not depend on it goes to `outer_lines`."""

    column: sympy.Symbol | None
    outer_lines: list[str]
    outer_names: dict[Expression, str] = field(default_factory=dict)
    """Names of row-invariant values: shared by all passes over one row."""
    pointers: dict[tuple[str, sympy.Expr], str] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    names: dict[Expression, str] = field(default_factory=dict)
    kept_in: Mapping[Expression, str] = field(default_factory=dict)
    """Arrays of the row for values that several passes need."""
    prefetch_bytes: int = 0
    """How far ahead of a row's first read of a buffer more of it is fetched; 0: not at all."""
    written: set[Expression] = field(default_factory=set)
    is_flat: bool = False
    """All of the stage is one row."""
    fetched: set[Load] = field(default_factory=set)

    def pass_over(self) -> "Scope":
        """A scope for the next pass over the same row."""
        return replace(self, lines=[], names={})

    def varies(self, expression: Expression) -> bool:
        return expression in self.names or self.column in free_symbols(expression)

    def scalar(self, expression: Expression) -> str:
        """Name of a value that is the same for the whole row."""
        match expression:
            case Constant(value=value):
                return literal(value)
            case SizeValue(size=size):
                return f"float({integer(size)})"
        if expression not in self.outer_names:
            kind = "bool" if is_condition(expression) else "float"
            code = self._scalar_code(expression)
            name = f"f{len(self.outer_names)}"
            self.outer_lines.append(f"const {kind} {name} = {code};")
            self.outer_names[expression] = name
        return self.outer_names[expression]

    def vector(self, expression: Expression) -> str:
        """Name (or scalar, splatted) of the value in the lanes at the current column."""
        if not self.varies(expression):
            return f"splat({self.scalar(expression)})"
        if expression not in self.names:
            array = self.kept_in.get(expression)
            is_known = expression in self.written
            code = f"load({array} + j, lanes)" if is_known else self._vector_code(expression)
            kind = "I" if is_condition(expression) else "F"
            name = f"v{len(self.names)}"
            self.lines.append(f"const {kind} {name} = {code};")
            self.names[expression] = name
            if array is not None and not is_known:
                self.lines.append(f"store({array} + j, lanes, {name});")
                self.written.add(expression)
        return self.names[expression]

    def store(self, store: Store, function: str = "store") -> None:
        """`function`: of the prelude, for neighbouring lanes."""
        pointer, step = self.place(store.buffer, store.address)
        name = self.vector(store.value)
        if step == 1:
            self.lines.append(f"{function}({pointer} + {self.column}, lanes, {name});")
        else:
            self.lines.append(f"scatter({pointer} + {integer(step)} * {self.column}, {integer(step)}, lanes, {name});")

    def place(self, buffer: str, address: sympy.Expr) -> tuple[str, sympy.Expr]:
        """A pointer to the row's first element there, and the step per column."""
        step = address.coeff(self.column) if self.column is not None else sympy.Integer(0)
        start = sympy.expand(address - step * self.column) if self.column is not None else address
        if start == 0:
            return buffer, step
        if (buffer, start) not in self.pointers:
            name = f"{buffer}_at{len(self.pointers)}"
            self.outer_lines.append(f"const auto {name} = {buffer} + {integer(start)};")
            self.pointers[buffer, start] = name
        return self.pointers[buffer, start], step

    def _prefetch(self, load: Load, pointer: str) -> None:
        """What differs from row to row; the others' rows stay in cache."""
        is_fresh = free_symbols(load) != {self.column} or self.is_flat
        if self.prefetch_bytes and is_fresh and load not in self.fetched:
            self.fetched.add(load)
            self.lines.append(f"prefetch<{self.prefetch_bytes}>({pointer});")

    def _scalar_code(self, expression: Expression) -> str:
        match expression:
            case Load(buffer=buffer, index=(address,)):
                return f"load_scalar({buffer} + {integer(address)})"
            case Apply(function=function, arguments=arguments):
                return _scalar_call(function, [self.scalar(argument) for argument in arguments])
        raise AssertionError(f"no row value for {type(expression).__name__}")

    def _vector_code(self, expression: Expression) -> str:
        match expression:
            case Load(buffer=buffer, index=(address,)):
                pointer, step = self.place(buffer, address)
                if step == 1:
                    self._prefetch(expression, f"{pointer} + {self.column}")
                    return f"load({pointer} + {self.column}, lanes)"
                return f"gather({pointer} + {integer(step)} * {self.column}, {integer(step)}, lanes)"
            case Apply(function="div", arguments=(dividend, divisor)) if not self.varies(divisor):
                # One division a row instead of one a lane; half an ulp more.
                return f"{self.vector(dividend)} * {self.vector(Apply('div', (Constant(1.0), divisor)))}"
            case Apply(function=function, arguments=arguments):
                return _vector_call(function, [self.vector(argument) for argument in arguments])
        raise AssertionError(f"no lane value for {type(expression).__name__}")


def _vector_call(function: str, names: list[str]) -> str:
    if function in INFIX:
        return f"{names[0]} {INFIX[function]} {names[1]}"
    match function:
        case "neg":
            return f"-{names[0]}"
        case "nonzero":
            return f"{names[0]} != 0.0f"
        case "logical_not":
            return f"~{names[0]}"
        case _:
            return f"{function}_of({', '.join(names)})"


def _scalar_call(function: str, names: list[str]) -> str:
    match function:
        case "logical_not":
            return f"!{names[0]}"
        case "where":
            return f"{names[0]} ? {names[1]} : {names[2]}"
        case "sqrt":
            return f"__builtin_sqrtf({names[0]})"
        case "rsqrt":
            return f"1.0f / __builtin_sqrtf({names[0]})"
        case "neg" | "nonzero":
            return _vector_call(function, names)
        case _ if function in INFIX:
            return _vector_call(function, names)
        case _:
            return f"{function}_of({', '.join(f'splat({name})' for name in names)})[0]"
