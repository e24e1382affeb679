"""Mends Triton's interpreter where it computes other values than a GPU does, so that it may judge kernels.

The interpreter of Triton 3.9 keeps bfloat16 as its bits: arithmetic, comparisons and tl.dot then work on the bits as if
they were integers, and conversions from float32 cut off where every GPU rounds to nearest even. It stays what it is
otherwise: sums run in another order than on a device, and no operation is approximate.
"""

from typing import Any

import numpy as np


def mend_bfloat16() -> None:
    """For kernels jitted from now on; TRITON_INTERPRET must have been set before Triton was imported."""
    import triton.language as tl
    from triton.runtime import interpreter

    builder = interpreter.InterpreterBuilder
    handle_type = interpreter.TensorHandle
    convert, cast = interpreter._convert_float, builder.cast_impl
    binary, unary, ternary, dot = builder.binary_op, builder.unary_op, builder.ternary_op, builder.create_dot
    fused, total = builder.create_fma, interpreter.ReduceOps.sum
    toward_zero = interpreter._ir.ROUNDING_MODE.RTZ

    def is_narrow(handle: Any) -> bool:
        return bool(handle.dtype.scalar == tl.bfloat16) and handle.data.dtype == np.uint16

    def wide(handle: Any) -> Any:
        return handle_type(widened(handle.data), tl.float32) if is_narrow(handle) else handle

    def narrow(handle: Any) -> Any:
        is_float = handle.data.dtype == np.float32
        return handle_type(rounded_to_bfloat16(handle.data), tl.bfloat16) if is_float else handle

    def convert_float(values: Any, source: Any, target: Any, rounding: Any) -> Any:
        if source == tl.bfloat16 and target == tl.float32:
            return widened(values)
        if source == tl.float32 and target == tl.bfloat16 and rounding != toward_zero:
            return rounded_to_bfloat16(values)
        return convert(values, source, target, rounding)

    def cast_impl(self: Any, source: Any, target: Any) -> Any:
        if is_narrow(source) and target.scalar not in (tl.bfloat16, tl.float32):
            return cast(self, wide(source), target)
        if target.scalar == tl.bfloat16 and source.dtype.scalar not in (tl.bfloat16, tl.float32):
            return cast(self, cast(self, source, tl.float32), target)
        return cast(self, source, target)

    def through_float32(operation: Any) -> Any:
        def operate(self: Any, *arguments: Any) -> Any:
            handles = [each for each in arguments if isinstance(each, handle_type)]
            if arguments[-1] is np.where or not any(is_narrow(handle) for handle in handles):
                return operation(self, *arguments)
            widest = [wide(each) if isinstance(each, handle_type) else each for each in arguments]
            return narrow(operation(self, *widest))

        return operate

    def create_dot(self: Any, left: Any, right: Any, total: Any, *options: Any) -> Any:
        return dot(self, wide(left), wide(right), total, *options)

    def add_up(self: Any, values: Any) -> Any:
        if not is_narrow(values.handle):
            return total(self, values)
        wide_total = np.sum(widened(values.handle.data), axis=self.axis, keepdims=self.keep_dims)
        return self.to_tensor(rounded_to_bfloat16(wide_total), values.dtype)

    interpreter._convert_float = convert_float
    builder.cast_impl = cast_impl
    builder.binary_op, builder.unary_op = through_float32(binary), through_float32(unary)
    builder.ternary_op, builder.create_fma = through_float32(ternary), through_float32(fused)
    builder.create_dot = create_dot
    interpreter.ReduceOps.sum = add_up


def widened(bits: Any) -> Any:
    """bfloat16, as its bits in uint16, as float32."""
    return (np.asarray(bits).astype(np.uint32) << 16).view(np.float32)


def rounded_to_bfloat16(values: Any) -> Any:
    """float32 to the nearest bfloat16, as its bits, ties to even; NaN stays one."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    return np.where(np.isnan(values), (bits >> 16) | 0x40, rounded).astype(np.uint16).reshape(np.shape(values))
