"""OpClass: which tasks are alike enough for one to learn from another, told from their references and inputs alone.

It does not say that a kernel of one is right for the other; the judge does.
"""

import ast
import functools
from enum import IntEnum

from candidates.record import Record, digest_of
from candidates.task import InputSpec, KernelTask, TensorSpec

LARGEST_KEPT_INTEGER = 4
"""Dims and exponents are small and say what is computed; larger integers are sizes, and say on how much."""


class Likeness(IntEnum):
    """How much a kernel of one task may teach the author of another; the larger the more."""

    NONE = 0
    SAME_FUNCTIONS = 1
    """One op class: their references call the same functions and operators."""
    SAME_SIGNATURE = 2
    """And take inputs of the same roles, element types and ranks, in one order, and give such outputs."""
    SAME_GRAPH = 3
    """And are the same program up to names, sizes and floating-point constants."""
    SAME_TASK = 4


class OpClass(Record):
    """Of a task. Digests are the first 16 hex digits."""

    functions: str
    """Digest of what the reference calls, as a set: the op class proper."""
    signature: str
    """`activation float32 rank 2, parameter float32 rank 1 -> float32 rank 2`."""
    graph: str
    """Digest of the reference without names of its own, without sizes, without floating-point constants."""


def classify(task: KernelTask) -> OpClass:
    """Deterministic. Raises SyntaxError for a reference that is no Python."""
    return _classify(task.reference, task.inputs, task.outputs)


def compare_tasks(task: KernelTask, other: KernelTask) -> Likeness:
    """Devices do not count."""
    if task.id == other.id:
        return Likeness.SAME_TASK
    own, theirs = classify(task), classify(other)
    if own.functions != theirs.functions:
        return Likeness.NONE
    if own.signature != theirs.signature:
        return Likeness.SAME_FUNCTIONS
    return Likeness.SAME_GRAPH if own.graph == theirs.graph else Likeness.SAME_SIGNATURE


@functools.lru_cache(maxsize=4096)
def _classify(reference: str, inputs: tuple[InputSpec, ...], outputs: tuple[TensorSpec, ...]) -> OpClass:
    tree = ast.parse(reference)
    functions = {name for node in ast.walk(tree) if (name := _function(node)) is not None}
    given = ", ".join(f"{spec.role.value} {_kind(spec)}" for spec in inputs)
    return OpClass(
        functions=digest_of(sorted(functions))[:16],
        signature=f"{given} -> {', '.join(map(_kind, outputs))}",
        graph=digest_of(ast.dump(_Normalised().visit(tree)))[:16],
    )


def _kind(spec: TensorSpec) -> str:
    return f"{spec.element_type.value} rank {len(spec.shape)}"


def _function(node: ast.AST) -> str | None:
    match node:
        case ast.Call(func=ast.Attribute(attr=name)) | ast.Call(func=ast.Name(id=name)):
            return name
        case ast.BinOp(op=operator) | ast.UnaryOp(op=operator):
            return None if isinstance(operator, ast.USub) else type(operator).__name__
    return None


class _Normalised(ast.NodeTransformer):
    """Names by their order of appearance, numbers by whether they say what is computed."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def visit_arg(self, node: ast.arg) -> ast.arg:
        return ast.arg(arg=self._rename(node.arg))

    def visit_Name(self, node: ast.Name) -> ast.Name:
        is_own = node.id in self._names or isinstance(node.ctx, ast.Store)
        return ast.Name(id=self._rename(node.id) if is_own else node.id, ctx=node.ctx)

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        value = node.value
        is_size = isinstance(value, int) and not isinstance(value, bool) and abs(value) > LARGEST_KEPT_INTEGER
        return ast.Constant(value="a number") if is_size or isinstance(value, float) else node

    def _rename(self, name: str) -> str:
        return self._names.setdefault(name, f"v{len(self._names)}")
