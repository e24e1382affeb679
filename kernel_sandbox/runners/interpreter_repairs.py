"""Repairs of Triton's interpreter, so that an honest kernel computes in it what it computes on a GPU.

Triton 3.6 to 3.9 keep bfloat16 as the 16-bit integers of its bits. Arithmetic then works on those integers, and a
conversion from float32 cuts the low half off instead of rounding (or, where rounding is asked for, loses a carry into
the exponent). On a GPU both round to nearest even (PTX ISA, `cvt.rn.bf16.f32`; `add.bf16` rounds once, as an operation
in float32 rounded afterwards does for one operation).

Runs inside the sandbox: no import of the project.
"""

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_BUILDER = interpreter.InterpreterBuilder


def repair() -> None:
    """Call it once, before the first launch."""
    _replace_conversions()
    _replace_arithmetic()


def rounded_to_bfloat16(values: Any) -> Any:
    """float32 `[...]` to the bits of the nearest bfloat16, ties to even, uint16 `[...]`; NaNs stay NaNs."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))) >> np.uint32(16)
    quieted = (bits >> np.uint32(16)) | np.uint32(0x40)
    return np.where(np.isnan(values), quieted, rounded).astype(np.uint16).reshape(np.shape(values))


def widened_to_float32(bits: Any) -> Any:
    """uint16 `[...]` to float32 `[...]`, exactly."""
    return (np.ascontiguousarray(bits).astype(np.uint32) << np.uint32(16)).view(np.float32).reshape(np.shape(bits))


def _replace_conversions() -> None:
    original_float, original_cast = interpreter._convert_float, _BUILDER.cast_impl

    def convert_float(values: Any, source: Any, target: Any, rounding_mode: Any) -> Any:
        if source == tl.float32 and target == tl.bfloat16 and rounding_mode != interpreter._ir.ROUNDING_MODE.RTZ:
            return rounded_to_bfloat16(values.view(np.float32))
        return original_float(values, source, target, rounding_mode)

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        kinds = source.dtype.scalar, target.scalar
        if tl.bfloat16 in kinds and tl.float32 not in kinds and kinds[0] != kinds[1]:
            return original_cast(self, original_cast(self, source, tl.float32), target)
        return original_cast(self, source, target)

    interpreter._convert_float = convert_float
    _BUILDER.cast_impl = cast_impl


def _replace_arithmetic() -> None:
    """Every operation on bfloat16 goes by float32; comparisons give booleans as they do for float32."""
    # These move bits, whatever they mean.
    of_bits = {np.where, np.bitwise_and, np.bitwise_or, np.bitwise_xor}

    def by_float32(original: Any, operands: int) -> Any:
        def operation(self: Any, *arguments: Any) -> Any:
            handles, function = arguments[:operands], arguments[operands]
            if function in of_bits or not any(handle.dtype.scalar == tl.bfloat16 for handle in handles):
                return original(self, *arguments)
            result = original(self, *map(_widened, handles), function)
            if result.data.dtype != np.float32:
                return result
            return interpreter.TensorHandle(rounded_to_bfloat16(result.data), tl.bfloat16)

        return operation

    _BUILDER.unary_op = by_float32(_BUILDER.unary_op, 1)
    _BUILDER.binary_op = by_float32(_BUILDER.binary_op, 2)
    _BUILDER.ternary_op = by_float32(_BUILDER.ternary_op, 3)
    original_fma = _BUILDER.create_fma

    def create_fma(self: Any, x: Any, y: Any, z: Any) -> Any:
        if z.dtype.scalar != tl.bfloat16:
            return original_fma(self, x, y, z)
        result = original_fma(self, _widened(x), _widened(y), _widened(z))
        return interpreter.TensorHandle(rounded_to_bfloat16(result.data), tl.bfloat16)

    _BUILDER.create_fma = create_fma


def _widened(handle: Any) -> Any:
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return interpreter.TensorHandle(widened_to_float32(handle.data), tl.float32)
