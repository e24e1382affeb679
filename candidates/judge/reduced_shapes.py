"""The shapes that a kernel is run on under sanitizers or an interpreter: small and odd ones that traffic could send.

A shape that no traffic can send would reject right kernels: what holds between the sizes of every known workload (one
is never above, or always a multiple of, another) must hold in it, and the reference must accept it.
"""

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from candidates.inputs import Distribution, draw_input
from candidates.judge.outputs import result_specs
from candidates.reference import run_reference
from candidates.task import InputRole, KernelTask, Workload

ODD_SIZES = (1, 3)
SMALLEST_PUBLIC = 2
LARGEST_ELEMENTS = 1 << 22
"""Of activations, states and outputs together: instrumented code is several times slower."""
MOST_HIDDEN = 4
LARGEST_INTERPRETED = 1 << 17
"""The same for an interpreter, which takes about a millisecond for each program of a grid."""

Inputs = Mapping[str, torch.Tensor]


def reduced_task(task: KernelTask, rng: np.random.Generator) -> KernelTask:
    """The task on shapes that an interpreter can run: small and odd ones, the largest of its own, some hidden ones."""
    chosen = {workload.name: workload for workload, _ in reduced_calls(task, rng, LARGEST_INTERPRETED)}
    fitting = [workload for workload in task.workloads if _elements(task, workload) <= LARGEST_INTERPRETED]
    public = sorted((each for each in fitting if not each.is_hidden), key=lambda each: _elements(task, each))
    for workload in (*public[-1:], *[each for each in fitting if each.is_hidden][:MOST_HIDDEN]):
        chosen.setdefault(workload.name, workload)
    return task.model_copy(update={"workloads": tuple(chosen.values())})


def reduced_calls(
    task: KernelTask, rng: np.random.Generator, largest_elements: int = LARGEST_ELEMENTS
) -> list[tuple[Workload, Inputs]]:
    """Smallest first, so that scratch sized by a first call is too small for a later one; never empty."""
    smallest = sorted(task.public_workloads, key=lambda each: _elements(task, each))
    chosen = {workload.name: workload for workload in smallest[:SMALLEST_PUBLIC]}
    for workload in _varied(task, smallest[0]):
        chosen.setdefault(workload.name, workload)
    fitting = [workload for workload in chosen.values() if _elements(task, workload) <= largest_elements]
    parameters = {
        spec.name: draw_input(spec, task.workloads[0].axes, Distribution.NORMAL, rng)
        for spec in task.inputs_of(InputRole.PARAMETER)
    }
    calls: list[tuple[Workload, Inputs]] = []
    for workload in sorted(fitting or smallest[:1], key=lambda each: _elements(task, each)):
        inputs = {
            spec.name: parameters[spec.name]
            if spec.role is InputRole.PARAMETER
            else draw_input(spec, workload.axes, Distribution.NORMAL, rng)
            for spec in task.inputs
        }
        if workload in task.public_workloads or _is_accepted(task, workload, inputs):
            calls.append((workload, inputs))
    return calls


def _varied(task: KernelTask, workload: Workload) -> Iterator[Workload]:
    for axis in task.axes:
        for size in ODD_SIZES:
            axes = {**workload.axes, axis: size}
            if all(_keeps_relations(task, axes, first, second) for first in task.axes for second in task.axes):
                yield Workload(axes=axes, calls_per_hour=0.0)


def _keeps_relations(task: KernelTask, axes: Mapping[str, int], first: str, second: str) -> bool:
    pairs = [(workload.axes[first], workload.axes[second]) for workload in task.workloads]
    if all(small <= large for small, large in pairs) and axes[first] > axes[second]:
        return False
    return not (all(large % small == 0 for small, large in pairs) and axes[second] % axes[first])


def _is_accepted(task: KernelTask, workload: Workload, inputs: Inputs) -> bool:
    try:
        results = run_reference(task, inputs)
    except (RuntimeError, IndexError, ValueError):  # what PyTorch raises for sizes that do not go together
        return False
    return all(tuple(results[spec.name].shape) == spec.sizes(workload.axes) for spec in result_specs(task))


def _elements(task: KernelTask, workload: Workload) -> int:
    activations = (spec for spec in task.inputs if spec.role is not InputRole.PARAMETER)
    return sum(spec.numel(workload.axes) for spec in (*activations, *task.outputs))
