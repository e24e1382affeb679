"""Triton of scalar expressions: one name per distinct sub-expression, row-invariant ones outside the column loop."""

import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

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

ELEMENT_TYPES = {
    ElementType.FLOAT32: "float32",
    ElementType.BFLOAT16: "bfloat16",
    ElementType.FLOAT16: "float16",
    ElementType.INT64: "int64",
    ElementType.INT32: "int32",
    ElementType.BOOL: "int1",
}
_NAN = "propagate_nan=tl.PropagateNan.ALL"
_CALLS = {
    "div": "tl.div_rn({0}, {1})",
    "neg": "-{0}",
    "abs": "tl.abs({0})",
    "sqrt": "tl.sqrt_rn({0})",
    "rsqrt": "tl.div_rn(1.0, tl.sqrt_rn({0}))",
    "erf": "tl.erf({0})",
    "log": "tl.log({0})",
    "sin": "tl.sin({0})",
    "cos": "tl.cos({0})",
    "where": "tl.where({0}, {1}, {2})",
    "maximum": f"tl.maximum({{0}}, {{1}}, {_NAN})",
    "minimum": f"tl.minimum({{0}}, {{1}}, {_NAN})",
    "nonzero": "{0} != 0",
    "logical_not": "~{0}",
}
MAX_EXPONENT = 16


def literal(value: float) -> str:
    if value != value or value in (float("inf"), float("-inf")):
        return f'float("{value}")'
    return repr(value) if value >= 0 else f"({value!r})"


def has_power(expression: Expression) -> bool:
    """Whether a power is one that products and square roots give: Triton itself has none."""
    match expression:
        case Apply(function="pow", arguments=(_, Constant(value=exponent))):
            return (2 * exponent).is_integer() and abs(exponent) <= MAX_EXPONENT
    return False


@dataclass(kw_only=True)
class TritonScope:
    """Statements over a tile; a value that does not depend on `column` goes to the scope of the row, where there is
    one."""

    lines: list[str]
    masks: Mapping[sympy.Symbol, str]
    """Which places of a loop variable are inside: a load is masked by those of its address, a store by all."""
    spelled: Mapping[sympy.Symbol, str] = field(default_factory=dict)
    """Loop variables that have another name in the source."""
    rank: int = 2
    column: sympy.Symbol | None = None
    row: "TritonScope | None" = None
    names: dict[Expression, str] = field(default_factory=dict)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    def name(self, expression: Expression) -> str:
        """The value as a name, or as a literal."""
        match expression:
            case Constant(value=value):
                return literal(value)
            case SizeValue(size=size):
                return literal(float(size)) if size.is_number else f"({integer(size)} * 1.0)"
        if self.row is not None and self.column not in free_symbols(expression) and expression not in self.names:
            return self.row.name(expression)
        if expression not in self.names:
            code = self._code(expression)
            name = f"v{next(self.numbers)}"
            self.lines.append(f"{name} = {code}")
            self.names[expression] = name
        return self.names[expression]

    def store(self, store: Store) -> None:
        value = self.name(store.value)
        is_name = not isinstance(store.value, Constant | SizeValue)
        if is_name and store.element_type is not ElementType.FLOAT32 and not is_condition(store.value):
            value += f".to(tl.{ELEMENT_TYPES[store.element_type]})"
        mask = " & ".join(dict.fromkeys(self.masks.values()))
        place = self.place(store.buffer, store.address)
        self.lines.append(f"tl.store({place}, {value}{f', mask={mask}' if mask else ''})")

    def load(self, load: Load) -> str:
        (address,) = load.index
        mask = " & ".join(dict.fromkeys(mask for symbol, mask in self.masks.items() if address.has(symbol)))
        return f"tl.load({self.place(load.buffer, address)}{f', mask={mask}, other=0' if mask else ''})"

    def place(self, buffer: str, address: sympy.Expr) -> str:
        symbols = {symbol: sympy.Symbol(name) for symbol, name in self.spelled.items()}
        code = integer(sympy.expand(address.xreplace(symbols)))
        if code == "0":
            return buffer
        return f"{buffer} + {code if code.isidentifier() or code.startswith('(') else f'({code})'}"

    def _code(self, expression: Expression) -> str:
        match expression:
            case Load(element_type=element_type):
                is_direct = element_type in (ElementType.FLOAT32, ElementType.BOOL)
                return self.load(expression) + ("" if is_direct else ".to(tl.float32)")
            case Apply(function="pow", arguments=(base, Constant(value=exponent))):
                return self._power(base, exponent)
            case Apply(function=function, arguments=arguments):
                names = [self.name(argument) for argument in arguments]
                if all(isinstance(argument, Constant | SizeValue) for argument in arguments):
                    names[0] = f"tl.full({(1,) * self.rank}, {names[0]}, tl.float32)"
                if function in _CALLS:
                    return _CALLS[function].format(*names)
                if function in INFIX:
                    return f"{names[0]} {INFIX[function]} {names[1]}"
                return f"{function}_of({', '.join(names)})"
        raise AssertionError(f"no value for {type(expression).__name__}")

    def _power(self, base: Expression, exponent: float) -> str:
        """By products, squaring as often as it goes."""
        whole = int(abs(exponent))
        factors: list[Expression] = [] if whole == abs(exponent) else [Apply("sqrt", (base,))]
        square = base
        while whole:
            if whole & 1:
                factors.append(square)
            square, whole = Apply("mul", (square, square)), whole >> 1
        product = self.name(factors[0]) if factors else "1.0"
        for factor in factors[1:]:
            product = f"{product} * {self.name(factor)}"
        return f"tl.div_rn(1.0, {product})" if exponent < 0 else product
