"""Inputs of a task drawn from several distributions, reproducible from a seed."""

import math
from collections.abc import Iterator
from enum import StrEnum

import numpy as np
import numpy.typing as npt
import torch

from candidates.task import ElementType, InputRole, InputSpec, KernelTask, TensorSpec, Workload
from candidates.weight_formats import drawn_for

_BEYOND = {ElementType.INT64: 2**63 - 1, ElementType.INT32: 2**31 - 1, ElementType.BOOL: True}

Values = npt.NDArray[np.float32]


class Distribution(StrEnum):
    """What activations look like; parameters always look like trained ones (see `_draw_parameter`)."""

    NORMAL = "normal"
    SMALL = "small"
    LARGE = "large"
    OFFSET = "offset"
    HEAVY_TAIL = "heavy_tail"
    CONSTANT_ROWS = "constant_rows"
    TIES = "ties"


def draw_inputs(
    task: KernelTask, workload: Workload, distribution: Distribution, rng: np.random.Generator
) -> dict[str, torch.Tensor]:
    """Every input by name, with the sizes and strides that the workload gives."""
    return {spec.name: draw_input(spec, workload.axes, distribution, rng) for spec in task.inputs}


def draw_every_kind(
    task: KernelTask, workload: Workload, rng: np.random.Generator
) -> Iterator[tuple[Distribution, dict[str, torch.Tensor]]]:
    """Inputs of each distribution, the normal one first. The parameters are the same in all: they do not depend on it,
    and drawing a large one takes seconds."""
    parameters = {
        spec.name: draw_input(spec, workload.axes, Distribution.NORMAL, rng)
        for spec in task.inputs_of(InputRole.PARAMETER)
    }
    others = [spec for spec in task.inputs if spec.name not in parameters]
    for distribution in Distribution:
        yield (
            distribution,
            parameters | {spec.name: draw_input(spec, workload.axes, distribution, rng) for spec in others},
        )


def draw_input(
    spec: InputSpec, axes: dict[str, int], distribution: Distribution, rng: np.random.Generator
) -> torch.Tensor:
    sizes = spec.sizes(axes)
    if spec.element_type is ElementType.BOOL:
        values = rng.integers(0, 2, sizes).astype(bool)
    elif spec.element_type in (ElementType.INT32, ElementType.INT64):
        values = rng.integers(0, spec.below or 2, sizes)
    elif spec.role is InputRole.PARAMETER:
        values = _draw_parameter(sizes, rng)
        if spec.stored_as is not None:
            values = drawn_for(spec.stored_as, values, rng)
    else:
        values = _draw_activation(sizes, distribution, rng)
    return laid_out(torch.from_numpy(np.ascontiguousarray(values)), spec, axes)


def laid_out(values: torch.Tensor, spec: TensorSpec, axes: dict[str, int]) -> torch.Tensor:
    """`values` ([sizes], any layout) copied into a fresh tensor with the spec's type and strides.

    Beyond it, where more is allocated, lies nothing that a kernel may use: NaN, or the largest integer.
    """
    dtype = getattr(torch, spec.element_type.value)
    tensor = torch.empty_strided(spec.allocated_sizes(axes), spec.strides(axes), dtype=dtype)
    if spec.allocated is not None:
        tensor.fill_(_BEYOND.get(spec.element_type, math.nan))
        tensor = tensor.as_strided(spec.sizes(axes), spec.strides(axes))
    return tensor.copy_(values.reshape(tensor.shape))  # numpy makes a vector of a scalar


def whole_allocation(tensor: torch.Tensor, spec: TensorSpec, axes: dict[str, int]) -> torch.Tensor:
    """All the memory of a tensor that is laid out as `spec` says, `[allocated sizes]`, shared with it."""
    return tensor.as_strided(spec.allocated_sizes(axes), spec.strides(axes))


def _draw_parameter(sizes: tuple[int, ...], rng: np.random.Generator) -> Values:
    """A vector scales (around 1), a matrix maps (variance 1 / fan-in), as in a trained model."""
    values = rng.standard_normal(sizes, dtype=np.float32)
    if len(sizes) < 2:
        return values * np.float32(0.3) + np.float32(1.0)
    return values / np.float32(math.sqrt(sizes[-1]))


def _draw_activation(sizes: tuple[int, ...], distribution: Distribution, rng: np.random.Generator) -> Values:
    values = rng.standard_normal(sizes, dtype=np.float32)
    match distribution:
        case Distribution.NORMAL:
            return values
        case Distribution.SMALL:
            return values * np.float32(1e-3)
        case Distribution.LARGE:
            return values * np.float32(30.0)
        case Distribution.OFFSET:
            return values + np.float32(5.0)
        case Distribution.HEAVY_TAIL:
            # Student's t with 2 degrees of freedom: infinite variance, every row has an outlier.
            spread = np.sqrt(rng.exponential(1.0, sizes)).astype(np.float32) + np.float32(0.03)
            heavy: Values = values / spread
            return heavy
        case Distribution.CONSTANT_ROWS:
            return np.broadcast_to(values[..., :1], sizes).copy() if sizes else values
        case Distribution.TIES:
            return np.round(values)
