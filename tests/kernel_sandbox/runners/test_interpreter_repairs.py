"""Rounding to bfloat16, held to PyTorch's."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

pytest.importorskip("triton", reason="Triton is not installed")

from kernel_sandbox.runners.interpreter_repairs import rounded_to_bfloat16, widened_to_float32

TIES_AND_LIMITS = [1.00390625, 1.01171875, -1.00390625, 3.4e38, -3.4e38, 1e-45, 1e-39, 0.0, -0.0, float("inf")]


@given(st.lists(st.floats(width=32, allow_nan=False), min_size=1))
def test_rounds_as_pytorch_does(values: list[float]) -> None:
    numbers = np.array(values + TIES_AND_LIMITS, dtype=np.float32)
    expected = torch.from_numpy(numbers).bfloat16()
    assert np.array_equal(rounded_to_bfloat16(numbers), expected.view(torch.uint16).numpy())
    assert np.array_equal(widened_to_float32(rounded_to_bfloat16(numbers)), expected.float().numpy())


def test_a_nan_stays_one() -> None:
    bits = np.array([0x7F800001, 0xFFFFFFFF, 0x7FC00000], dtype=np.uint32)
    assert np.isnan(widened_to_float32(rounded_to_bfloat16(bits.view(np.float32)))).all()
