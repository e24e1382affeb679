"""What a reference that came out of a sandbox may say: calls of aten ops on its arguments, and nothing else.

The judge executes references in its own process, and the sandbox's answer is the user's file to write.
"""

import ast

import torch

_SHAPES = (ast.Assign, ast.Return, ast.arguments, ast.arg, ast.Tuple, ast.List, ast.Constant, ast.BinOp, ast.UnaryOp,
           ast.Subscript, ast.Slice, ast.keyword, ast.operator, ast.unaryop, ast.expr_context)  # fmt: skip
_FILES = {"from_file", "save"}
"""Aten ops that reach outside."""


def require_plain(source: str) -> None:
    """Raises ValueError, with the line, for anything that `write_reference` would not have written."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise ValueError(f"its reference is no Python: {error}") from error
    match tree.body:
        case [ast.FunctionDef(name="reference", decorator_list=[], returns=None) as function]:
            arguments = function.args
            if arguments.defaults or any(argument.annotation for argument in arguments.args):
                raise ValueError("its reference has defaults or annotations")
            for statement in function.body:
                _require_plain(statement)
        case _:
            raise ValueError("its reference is not one function")


def _require_plain(node: ast.AST) -> None:
    match node:
        case ast.Call(func=function):
            if not _is_op(function):
                raise ValueError(f"line {node.lineno} of its reference calls {ast.unparse(function)}, no aten op")
            on = [function.value] if isinstance(function, ast.Attribute) and not _is_of_torch(function) else []
            children = [*on, *node.args, *node.keywords]
        case ast.Attribute(value=value, attr=name):
            is_type = _path(node) == ["torch", name] and isinstance(getattr(torch, name, None), torch.dtype)
            if not is_type and name != "shape":
                raise ValueError(f"line {node.lineno} of its reference reads {ast.unparse(node)}")
            children = [] if is_type else [value]
        case ast.Name(id=name):
            if name.startswith("__") or name == "torch":
                raise ValueError(f"line {node.lineno} of its reference names {name}")
            children = []
        case _ if isinstance(node, _SHAPES):
            children = list(ast.iter_child_nodes(node))
        case _:
            raise ValueError(f"line {getattr(node, 'lineno', 1)} of its reference is a {type(node).__name__}")
    for child in children:
        _require_plain(child)


def _is_op(function: ast.expr) -> bool:
    """`torch.name`, `torch.nn.functional.name`, `torch.ops.aten.name.overload`, a method, or `float`."""
    match _path(function):
        case ["float"]:
            return True
        case ["torch", name] | ["torch", "nn", "functional", name] | ["torch", "ops", "aten", name, _]:
            return _is_aten(name)
    return isinstance(function, ast.Attribute) and not _is_of_torch(function) and _is_aten(function.attr)


def _is_of_torch(node: ast.expr) -> bool:
    return _path(node)[:1] == ["torch"]


def _is_aten(name: str) -> bool:
    return not name.startswith("__") and name not in _FILES and hasattr(torch.ops.aten, name)


def _path(node: ast.expr) -> list[str]:
    """`["torch", "nn", "functional", "silu"]`; empty for what is no dotted name."""
    parts: list[str] = []
    while isinstance(node, ast.Attribute):
        parts.append(node.attr)
        node = node.value
    return [node.id, *reversed(parts)] if isinstance(node, ast.Name) else []
