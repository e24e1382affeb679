"""Sums, reductions and scans of Triton's interpreter, in the order of a tree and many elements at once.

Triton 3.6 to 3.9 add as numpy does (one after the other along the first dim of a tile), which loses more than a GPU,
whose threads add in pairs; add bfloat16 as the integers of its bits; and call a combine function once for each element,
for seconds.

Runs inside the sandbox: no import of the project.
"""

import ast
import functools
import inspect
import textwrap
from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_REDUCE, _SCAN = interpreter.ReduceOps, interpreter.ScanOps


def repair() -> None:
    """Call it once, before the first launch."""
    one_by_one_reduce, one_by_one_scan = _REDUCE.generic_reduce, _SCAN.generic_scan

    def generic_reduce(self: Any, tensors: Any) -> Any:
        return one_by_one_reduce(self, tensors) if _branches(self.combine_fn.fn) else _reduce(self, tensors)

    def generic_scan(self: Any, tensors: Any) -> Any:
        return one_by_one_scan(self, tensors) if _branches(self.combine_fn.fn) else _scan(self, tensors)

    _REDUCE.generic_reduce = generic_reduce
    _REDUCE.sum = lambda self, tensor: _reduce(self, (tensor,))[0]
    _SCAN.generic_scan = generic_scan
    _SCAN.cumsum = lambda self, tensor: _scan(self, (tensor,))
    _SCAN.cumprod = lambda self, tensor: _scan(self, (tensor,))


def _reduce(operation: Any, tensors: Any) -> list[Any]:
    arrays = [tensor.handle.data for tensor in tensors]
    dims = arrays[0].ndim
    if operation.axis is None:
        arrays = [array.reshape(-1) for array in arrays]
    arrays = [np.moveaxis(array, operation.axis or 0, 0) for array in arrays]
    while len(arrays[0]) > 1:
        half = len(arrays[0]) // 2
        combined = _combined(operation, tensors, [a[:half] for a in arrays], [a[half : 2 * half] for a in arrays])
        arrays = [np.concatenate([new, old[2 * half :]]) for new, old in zip(combined, arrays, strict=True)]
    results = [array[0] for array in arrays]
    if operation.keep_dims:
        axes = tuple(range(dims)) if operation.axis is None else operation.axis
        results = [np.expand_dims(result, axes) for result in results]
    return [operation.to_tensor(result, tensor.dtype) for result, tensor in zip(results, tensors, strict=True)]


def _scan(operation: Any, tensors: Any) -> list[Any]:
    """Hillis and Steele's: each step combines with what lies twice as far before."""
    arrays = [np.moveaxis(tensor.handle.data, operation.axis, 0) for tensor in tensors]
    step = 1
    while step < len(arrays[0]):
        # Whole tiles, since the language has no others; what wraps around is thrown away.
        combined = _combined(operation, tensors, [np.roll(array, step, 0) for array in arrays], arrays)
        arrays = [np.concatenate([old[:step], new[step:]]) for new, old in zip(combined, arrays, strict=True)]
        step *= 2
    results = [np.ascontiguousarray(np.moveaxis(array, 0, operation.axis)) for array in arrays]
    return [operation.to_tensor(result, tensor.dtype) for result, tensor in zip(results, tensors, strict=True)]


def _combined(operation: Any, tensors: Any, left: list[Any], right: list[Any]) -> list[Any]:
    if operation.combine_fn is tl.standard._sum_combine and tensors[0].dtype != tl.bfloat16:
        return [np.add(left[0], right[0])]
    operands = [
        tl.core.tensor(interpreter.TensorHandle(array, tensor.dtype), tl.block_type(tensor.dtype, list(array.shape)))
        for side in (left, right)
        for array, tensor in zip(side, tensors, strict=True)
    ]
    made = operation.combine_fn.fn(*operands)
    return [
        np.broadcast_to(getattr(getattr(each, "handle", None), "data", each), array.shape).astype(array.dtype)
        for each, array in zip(made if isinstance(made, tuple | tl.tuple) else (made,), left, strict=True)
    ]


@functools.cache
def _branches(function: Any) -> bool:
    """Whether it may decide by an element, which it cannot for many at once."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, SyntaxError):
        return True
    return any(isinstance(node, ast.If | ast.IfExp | ast.While | ast.BoolOp) for node in ast.walk(tree))
