"""WeightFormat: how a kernel may keep a float32 parameter in fewer bytes, and parameters drawn so that it can.

Whether given values can be kept in a format is asked in serving too: `serving_build.runtime.can_be_kept`.
"""

from enum import StrEnum

import numpy as np
import numpy.typing as npt

Values = npt.NDArray[np.float32]

BLOCK = 32
"""Weights along the last dim that share a scale, as in ggml (ggml-common.h: QK4_1, QK8_0)."""
_CLIPPED_SHARE = 1 / 64
"""Of the blocks drawn, those that use some of the codes only: a kernel must not rely on the outermost ones."""


class WeightFormat(StrEnum):
    Q4_1 = "q4_1"
    """Per block a float16 scale and a float16 minimum; scale * code + minimum, codes 0 to 15."""
    Q8_0 = "q8_0"
    """Per block a float16 scale; scale * code, codes -127 to 127."""
    BFLOAT16 = "bfloat16"
    """Of any values the nearest: the only format here that loses something."""

    @property
    def is_exact(self) -> bool:
        """Whether the parameter's values are just those that the format can hold, bit for bit."""
        return self is not WeightFormat.BFLOAT16

    def size_bytes(self, count: int) -> int:
        """Of `count` weights, whole blocks."""
        return count * {"q4_1": 20, "q8_0": 34, "bfloat16": 64}[self.value] // BLOCK


def drawn_for(stored_as: WeightFormat, values: Values, rng: np.random.Generator) -> Values:
    """`values` ([..., a multiple of 32]) moved to the nearest that an exact format holds; for bfloat16 as they are."""
    match stored_as:
        case WeightFormat.Q4_1:
            moved = _drawn_for_q4_1(values.reshape(-1, BLOCK), rng)
        case WeightFormat.Q8_0:
            moved = _drawn_for_q8_0(values.reshape(-1, BLOCK), rng)
        case WeightFormat.BFLOAT16:
            moved = values
    return moved.reshape(values.shape)


def _drawn_for_q4_1(blocks: Values, rng: np.random.Generator) -> Values:
    low, high = blocks.min(axis=1, keepdims=True), blocks.max(axis=1, keepdims=True)
    scale, minimum = _float16((high - low) / np.float32(15)), _float16(low)
    codes = np.rint((blocks - minimum) / np.where(scale == 0, np.float32(1), scale)).clip(0, 15)
    clipped = np.flatnonzero(rng.random(len(blocks)) < _CLIPPED_SHARE)
    first = rng.integers(0, 16, (len(clipped), 1))
    last = rng.integers(first, 16)
    # A block of one value is its minimum: another code of it would be no float16.
    codes[clipped] = np.where(first < last, codes[clipped].clip(first, last), 0)
    drawn: Values = scale * codes + minimum
    return drawn


def _drawn_for_q8_0(blocks: Values, rng: np.random.Generator) -> Values:
    scale = _float16(np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127))
    codes = np.rint(blocks / np.where(scale == 0, np.float32(1), scale)).clip(-127, 127)
    clipped = np.flatnonzero(rng.random(len(blocks)) < _CLIPPED_SHARE)
    largest = rng.integers(0, 128, (len(clipped), 1))
    codes[clipped] = codes[clipped].clip(-largest, largest)
    drawn: Values = scale * codes
    return drawn


def _float16(values: Values) -> Values:
    """The nearest float16 numbers, as float32: what a scale or a minimum may be."""
    return values.astype(np.float16).astype(np.float32)
