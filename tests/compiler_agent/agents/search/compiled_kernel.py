"""Builds an emitted candidate with g++ directly, calls it through ctypes, and checks it against the oracle."""

import ctypes
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from candidates.candidate import Candidate
from candidates.error_bound import allowed_error, derive_error_bound
from candidates.inputs import Distribution, draw_inputs
from candidates.reference import run_oracle
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)

BUILD = ("g++", "-O3", "-march=native", "-std=c++20", "-fopenmp", "-fPIC", "-shared", "-fno-math-errno")
BUILD += ("-fno-trapping-math", "-Wall", "-Werror")
Axes = dict[str, int]


def tensor(name: str, *shape: int | str, dtype: str = "float32", order: tuple[int, ...] | None = None) -> TensorSpec:
    return TensorSpec(
        name=name, element_type=ElementType(dtype), shape=shape, dim_order=order or tuple(range(len(shape)))
    )


def activation(name: str, *shape: int | str, dtype: str = "float32", order: tuple[int, ...] | None = None) -> InputSpec:
    return InputSpec(**tensor(name, *shape, dtype=dtype, order=order).model_dump(), role=InputRole.ACTIVATION)


def parameter(name: str, *shape: int | str, dtype: str = "float32") -> InputSpec:
    return InputSpec(**tensor(name, *shape, dtype=dtype).model_dump(), role=InputRole.PARAMETER)


def make_task(
    op: str,
    reference: str,
    inputs: list[InputSpec],
    outputs: list[TensorSpec],
    workloads: list[Axes],
) -> KernelTask:
    """A task with the error bound of PyTorch itself."""
    task = KernelTask(
        op=op,
        site="model.test",
        level=SiteLevel.LEAF,
        reference=reference,
        inputs=tuple(inputs),
        outputs=tuple(outputs),
        axes=tuple(workloads[0]),
        workloads=tuple(Workload(axes=axes, calls_per_hour=1.0) for axes in workloads),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-test",
    )
    return task.model_copy(update={"error_bound": derive_error_bound(task)})


class CompiledKernel:
    def __init__(self, task: KernelTask, candidate: Candidate, folder: Path) -> None:
        self.task = task
        self.candidate = candidate
        source = folder / f"{candidate.id[:12]}.cpp"
        source.write_text(candidate.source)
        library = source.with_suffix(".so")
        subprocess.run([*BUILD, str(source), "-o", str(library)], check=True)
        self._library = ctypes.CDLL(str(library))
        self._kernel = getattr(self._library, candidate.entry)
        self._kernel.restype = None

    def prepare(self, inputs: Mapping[str, torch.Tensor]) -> torch.Tensor | None:
        if self.candidate.prepare is None:
            return None
        size_bytes = getattr(self._library, f"{self.candidate.prepare}_bytes")
        size_bytes.restype = ctypes.c_int64
        room = torch.full((size_bytes() + 64,), 0xFF, dtype=torch.uint8)
        prepared = room[-room.data_ptr() % 64 :]
        parameters = [inputs[spec.name] for spec in self.task.inputs_of(InputRole.PARAMETER)]
        getattr(self._library, self.candidate.prepare)(
            *(ctypes.c_void_p(each.data_ptr()) for each in (*parameters, prepared))
        )
        return prepared

    def arguments(
        self,
        inputs: Mapping[str, torch.Tensor],
        outputs: Mapping[str, torch.Tensor],
        prepared: torch.Tensor | None,
        axes: Axes,
    ) -> list[ctypes.c_void_p | ctypes.c_int64]:
        tensors = [inputs[spec.name] for spec in self.task.inputs] + [outputs[spec.name] for spec in self.task.outputs]
        tensors += [] if prepared is None else [prepared]
        pointers = [ctypes.c_void_p(each.data_ptr()) for each in tensors]
        return [*pointers, *(ctypes.c_int64(axes[axis]) for axis in self.task.axes)]

    def __call__(self, inputs: Mapping[str, torch.Tensor], axes: Axes) -> dict[str, torch.Tensor]:
        outputs, rooms = guarded_outputs(self.task, axes)
        prepared = self.prepare(inputs)
        self._kernel(*self.arguments(inputs, outputs, prepared, axes))
        assert all(bool((room[-64:] == 0xFF).all()) for room in rooms), "wrote behind an output"
        return outputs


class Kernel(Protocol):
    def __call__(self, inputs: Mapping[str, torch.Tensor], axes: Axes) -> dict[str, torch.Tensor]: ...


def guarded_outputs(task: KernelTask, axes: Axes) -> tuple[dict[str, torch.Tensor], list[torch.Tensor]]:
    """Outputs, each in a buffer of NaN bytes with a guard at its end that must stay untouched; the buffers."""
    outputs, rooms = {}, []
    for spec in task.outputs:
        room = torch.full((spec.size_bytes(axes) + 64,), 0xFF, dtype=torch.uint8)
        rooms.append(room)
        flat = room[:-64].view(getattr(torch, spec.element_type.value))
        outputs[spec.name] = torch.as_strided(flat, spec.sizes(axes), spec.strides(axes))
    return outputs, rooms


def worst_error_in_bounds(
    task: KernelTask, kernel: Kernel, distributions: tuple[Distribution, ...] = tuple(Distribution)
) -> float:
    """The largest |got - exact| as a share of its bound, over all workloads; infinite where non-finites differ."""
    rng = np.random.default_rng(7)
    worst = 0.0
    for workload in task.workloads:
        for distribution in distributions:
            inputs = draw_inputs(task, workload, distribution, rng)
            exact = run_oracle(task, inputs)
            for name, got in kernel(inputs, workload.axes).items():
                worst = max(worst, _error_in_bounds(task.error_bound, got, exact[name]))
    return worst


def _error_in_bounds(bound: ErrorBound, got: torch.Tensor, exact: torch.Tensor) -> float:
    if not exact.is_floating_point():
        return 0.0 if torch.equal(got, exact.to(got.dtype)) else float("inf")
    is_finite = torch.isfinite(exact.to(got.dtype))
    if not torch.equal(is_finite, torch.isfinite(got)):
        return float("inf")
    error = (got.double() - exact).abs() / allowed_error(bound, exact, got.dtype)
    return float(torch.where(is_finite, error, torch.zeros_like(error)).max())
