"""Repairs of the numbers in Triton's interpreter: an honest kernel computes in it what it computes on a GPU.

Triton 3.6 to 3.9 keep bfloat16 as the 16-bit integers of its bits. Arithmetic then works on those integers, and a
conversion from float32 cuts the low half off instead of rounding (or, where rounding is asked for, loses a carry into
the exponent). On a GPU both round to nearest even (PTX ISA, `cvt.rn.bf16.f32`; `add.bf16` rounds once, as an operation
in float32 rounded afterwards does for one operation).

It also multiplies in full float32 where `tl.dot` asks for tf32, which is the default, and gives zeros where a load is
masked off and says no `other`, which Triton's own documentation leaves undefined. Sums and scans are in
interpreter_reductions.py, what surrounds a launch is in interpreter_launches.py.

Runs inside the sandbox: no import of the project.
"""

from typing import Any

import numpy as np
import triton.language as tl
from triton.runtime import interpreter

_BUILDER = interpreter.InterpreterBuilder
_UNDEFINED = {2: 0x7FD3, 4: 0x7FC12345, 8: 0x7FF8123412341234}
"""By size of an element: NaNs in every type of numbers with a point, far from any index in the others."""


def repair() -> None:
    """Call it once, before the first launch."""
    _replace_conversions()
    _replace_arithmetic()
    _replace_dot()
    _replace_masked_load()


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
        if source == tl.float32 and target == tl.float16 and rounding_mode != interpreter._ir.ROUNDING_MODE.RTZ:
            return values.view(np.float32).astype(np.float16).view(np.uint16)
        return original_float(values, source, target, rounding_mode)

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        kinds = source.dtype.scalar, target.scalar
        if tl.bfloat16 in kinds and tl.float32 not in kinds and kinds[0] != kinds[1]:
            return original_cast(self, original_cast(self, source, tl.float32), target)
        return original_cast(self, source, target)

    interpreter._convert_float = convert_float
    _BUILDER.cast_impl = cast_impl
    # Triton 3.6 has none, and so no constants in bfloat16.
    _BUILDER.get_bf16 = lambda self, value: self.create_fp_trunc(self.get_fp32(value), tl.bfloat16)


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
        if z.dtype.scalar == tl.float16:  # Triton 3.6 rounds the product too
            exact = np.multiply(x.data, y.data, dtype=np.float64) + z.data
            return interpreter.TensorHandle(exact.astype(np.float16), tl.float16)
        if z.dtype.scalar != tl.bfloat16:
            return original_fma(self, x, y, z)
        result = original_fma(self, _widened(x), _widened(y), _widened(z))
        return interpreter.TensorHandle(rounded_to_bfloat16(result.data), tl.bfloat16)

    _BUILDER.create_fma = create_fma


def rounded_to_tf32(values: Any) -> Any:
    """float32 `[...]` with 10 bits of mantissa, ties to even: the best that a tensor core may make of an operand."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + np.uint32(0xFFF) + ((bits >> np.uint32(13)) & np.uint32(1))) & np.uint32(0xFFFFE000)
    return np.where(np.isfinite(values), rounded, bits).view(np.float32).reshape(np.shape(values))


def _replace_dot() -> None:
    original = _BUILDER.create_dot

    def create_dot(self: Any, a: Any, b: Any, d: Any, input_precision: Any, *rest: Any) -> Any:
        a, b = _widened(a), _widened(b)
        if input_precision == interpreter._ir.INPUT_PRECISION.TF32:
            a, b = (
                interpreter.TensorHandle(rounded_to_tf32(each.data), tl.float32) if each.dtype == tl.float32 else each
                for each in (a, b)
            )
        return original(self, a, b, d, input_precision, *rest)

    _BUILDER.create_dot = create_dot


def _replace_masked_load() -> None:
    original = _BUILDER.create_masked_load

    def create_masked_load(self: Any, pointers: Any, mask: Any, other: Any, *rest: Any) -> Any:
        if other is None and not mask.data.all():
            kind = interpreter._get_np_dtype(pointers.get_element_ty())
            undefined = np.array(_UNDEFINED.get(kind.itemsize, 0x5A), dtype=f"u{kind.itemsize}").view(kind)
            other = interpreter.TensorHandle(np.full(pointers.data.shape, undefined), pointers.get_element_ty())
        return original(self, pointers, mask, other, *rest)

    _BUILDER.create_masked_load = create_masked_load


def _widened(handle: Any) -> Any:
    if handle.dtype.scalar != tl.bfloat16:
        return handle
    return interpreter.TensorHandle(widened_to_float32(handle.data), tl.float32)
