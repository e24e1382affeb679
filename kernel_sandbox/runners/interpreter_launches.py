"""What Triton's interpreter does around a launch, repaired: arguments, loops, and how often it prepares itself.

Triton 3.6 to 3.9 give a kernel its float arguments as Python's (with a float16 a product then is a float16, on a GPU a
float32) and the index of a loop as Python's int (which has no `.to`), and prepare the whole language again for each
call of a function.

Runs inside the sandbox: no import of the project.
"""

import ast
from collections.abc import Callable
from typing import Any

import numpy as np
import triton.language as tl
from torch.utils._python_dispatch import _disable_current_modes
from triton.runtime import interpreter


def repair() -> None:
    """Call it once, before the first launch."""
    _replace_arguments()
    _replace_loops()
    _prepare_once()


def watch(begin: Callable[[list[Any]], None], end: Callable[[str], None]) -> None:
    """`begin` gets what each launch is launched on, `end` the kernel's name, also of a launch that raises. What the
    interpreter itself has torch copy for a launch no dispatch mode sees."""
    executor = interpreter.GridExecutor
    launch = executor.__call__

    def watched(grid: Any, *args: Any, **kwargs: Any) -> Any:
        begin([*args, *kwargs.values()])
        try:
            return launch(grid, *args, **kwargs)
        finally:
            end(grid.fn.__name__)

    executor.__call__ = watched
    for name in ("_init_args_hst", "_restore_args_dev"):
        setattr(executor, name, _unseen(getattr(executor, name)))


def _unseen(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return call


def _replace_arguments() -> None:
    original = interpreter._implicit_cvt

    def implicit_cvt(argument: Any) -> Any:
        if isinstance(argument, float):
            handle = interpreter.TensorHandle(np.array([argument], dtype=np.float32), tl.float32)
            return tl.tensor(handle, tl.float32)
        return original(argument)

    interpreter._implicit_cvt = implicit_cvt


def _replace_loops() -> None:
    def visit_For(self: Any, node: ast.For) -> ast.For:  # noqa: N802
        self.generic_visit(node)
        called = node.iter.func if isinstance(node.iter, ast.Call) else None
        name = called.id if isinstance(called, ast.Name) else called.attr if isinstance(called, ast.Attribute) else ""
        if name == "range" and isinstance(node.target, ast.Name):
            index = node.target.id
            node.body[:0] = ast.parse(f"{index} = interpreter_semantic.to_tensor({index}, False)").body
        return node

    interpreter.ASTTransformer.visit_For = visit_For


def _prepare_once() -> None:
    """And for good: nothing but kernels uses the language here."""
    original = interpreter._patch_lang
    prepared: set[str] = set()

    class Kept:
        def restore(self) -> None:
            pass

    def patch_lang(function: Any) -> Kept:
        seen = {
            module.__name__ for module in (tl, tl.core) if any(each is module for each in function.__globals__.values())
        }
        if not seen or not seen <= prepared:
            original(function)
            # Triton 3.6 asks numpy to make a number of an array with one dim, which it no longer does.
            tl.core.tensor.__index__ = lambda tensor: int(tensor.handle.data.item())
            prepared.update(seen)
        return Kept()

    interpreter._patch_lang = patch_lang
