"""Whether a task can be judged: wrong results of every usual kind must fail its check, right ones must pass.

A task whose check passes zeros, or a copy of its input, would be won by a kernel that computes nothing.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial

import numpy as np
import torch

from candidates.inputs import Distribution, draw_every_kind
from candidates.judge.outputs import Fault, compare_results, poison, result_specs
from candidates.reference import run_oracle, run_reference
from candidates.task import KernelTask, TensorSpec, Workload
from candidates.weight_formats import WeightFormat

ADMISSION_SEED = 20_240_229  # fixed, so that one task is always admitted or always not
_WORKLOADS = 2

Results = Mapping[str, torch.Tensor]
Mutate = Callable[[torch.Tensor, TensorSpec], torch.Tensor]


def find_weaknesses(task: KernelTask) -> list[str]:
    """Why the task is not admitted, in words; empty for one that is. Takes its smallest public workloads."""
    weaknesses: list[str] = []
    caught: dict[str, bool] = {}
    constant = {spec.name for spec in result_specs(task)}
    for workload in sorted(task.public_workloads, key=lambda each: _elements(task, each))[:_WORKLOADS]:
        for distribution, inputs in draw_every_kind(task, workload, np.random.default_rng(ADMISSION_SEED)):
            exact, right = run_oracle(task, inputs), run_reference(task, inputs)
            if distribution is Distribution.NORMAL:
                first = right
            constant -= {name for name in constant if not torch.equal(right[name], first[name])}
            case = f"{workload.name}, {distribution.value} inputs"
            for name, results in {"PyTorch": right, "float64, rounded": _rounded(task, exact)}.items():
                if isinstance(found := compare_results(task, inputs, exact, results), Fault):
                    weaknesses.append(f"a right result fails ({name}; {case}): {found.message}")
            for name, make in _mutants(task, inputs, right):
                if caught.get(name):
                    continue
                results = make()
                if any(not torch.equal(results[key], right[key]) for key in right):
                    caught[name] = isinstance(compare_results(task, inputs, exact, results), Fault)
    weaknesses += [f"{name} does not depend on the inputs" for name in sorted(constant)]
    return weaknesses + [f"a wrong result passes: {name}" for name, was_caught in caught.items() if not was_caught]


def _mutants(
    task: KernelTask, inputs: Mapping[str, torch.Tensor], right: Results
) -> Iterator[tuple[str, Callable[[], Results]]]:
    """One result at a time is replaced; those that equal the right ones do not apply."""
    for spec in result_specs(task):
        for name, mutate in _MUTATIONS.items():
            yield f"{spec.name}: {name}", partial(_mutated, right, spec, mutate)
        for source in task.inputs:
            given = inputs[source.name]
            if given.shape == right[spec.name].shape and given.dtype == right[spec.name].dtype:
                yield f"{spec.name}: copy of {source.name}", partial(dict, right, **{spec.name: given})
    if any(tensor.dtype == torch.float32 for tensor in inputs.values()):
        is_rounded = any(spec.stored_as is WeightFormat.BFLOAT16 for spec in task.inputs)
        coarse = "float8_e5m2" if is_rounded else "bfloat16"  # the next format that is coarser than what is allowed
        yield f"inputs rounded to {coarse}", partial(_of_coarse_inputs, task, inputs, getattr(torch, coarse))


def _mutated(right: Results, spec: TensorSpec, mutate: Mutate) -> Results:
    return {**right, spec.name: mutate(right[spec.name].clone(), spec)}


def _of_coarse_inputs(task: KernelTask, inputs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> Results:
    coarse = {
        name: tensor.to(dtype).float() if tensor.dtype == torch.float32 else tensor for name, tensor in inputs.items()
    }
    return run_reference(task, coarse)


def _zeros(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return torch.zeros_like(right)


def _ones(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return torch.ones_like(right)


def _mean(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    finite = torch.where(torch.isfinite(right), right, torch.zeros_like(right)).double()
    return torch.full_like(right, finite.mean().item())


def _poisoned(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    poison(right, spec.element_type, 0)
    return right


def _last_row_missing(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    if right.dim() and right.shape[0] > 1:
        right[-1] = 0
    return right


def _tail_off_by_one(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    if right.dim() and right.shape[-1] > 1:
        right[..., -1] = right[..., -2]
    return right


def _rolled(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return right.roll(1, -1) if right.dim() else right


def _transposed(right: torch.Tensor, spec: TensorSpec) -> torch.Tensor:
    return right.transpose(-1, -2).reshape(right.shape) if right.dim() > 1 else right


_MUTATIONS: dict[str, Mutate] = {
    "zeros": _zeros,
    "ones": _ones,
    "its mean everywhere": _mean,
    "not written": _poisoned,
    "last row missing": _last_row_missing,
    "last column off by one": _tail_off_by_one,
    "shifted by one": _rolled,
    "transposed": _transposed,
}


def _rounded(task: KernelTask, exact: Results) -> Results:
    return {spec.name: exact[spec.name].to(getattr(torch, spec.element_type.value)) for spec in result_specs(task)}


def _elements(task: KernelTask, workload: Workload) -> int:
    return sum(spec.numel(workload.axes) for spec in (*task.inputs, *task.outputs))
