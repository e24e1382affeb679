"""What C++ and Triton write alike: polynomials of indices, infix operators."""

import sympy  # type: ignore[import-untyped]  # ships no types

INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/", "eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">"}
INFIX |= {"ge": ">=", "logical_and": "&", "logical_or": "|"}


def integer(expression: sympy.Expr) -> str:
    """A polynomial with integer coefficients."""
    if isinstance(expression, sympy.Add):
        return "(" + " + ".join(integer(term) for term in expression.args) + ")"
    if isinstance(expression, sympy.Mul):
        return " * ".join(integer(factor) for factor in expression.args)
    if isinstance(expression, sympy.Pow):
        return " * ".join([integer(expression.base)] * int(expression.exp))
    return str(expression)
