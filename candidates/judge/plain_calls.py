"""Plain calls: a task's calls in an arena whose results nobody looks at, for those who watch how a kernel runs."""

from collections.abc import Mapping, Sequence

import numpy as np
import torch

from candidates.judge.trial import ParameterSet, case_bytes, parameters_bytes, place_parameters, view_of
from candidates.kernel_runner import Call
from candidates.task import InputRole, InputSpec, KernelTask, TensorSpec, Workload
from kernel_sandbox.arena import Arena, Place, Segment

CALLS_AT_ONCE = 2
"""Of one shape: what a kernel keeps of one call shows in the next."""


def make_arena(task: KernelTask, workloads: Sequence[Workload]) -> Arena:
    """With room for the parameters and the calls of the largest of them at once."""
    sizes = dict.fromkeys(Segment, 0)
    for workload in workloads:
        for segment, size in case_bytes(task, workload).items():
            sizes[segment] = max(sizes[segment], size)
    return Arena(sizes[Segment.INPUTS] + parameters_bytes(task, 1), sizes[Segment.OUTPUTS])


def place_one_set(task: KernelTask, arena: Arena, rng: np.random.Generator) -> ParameterSet:
    return place_parameters(task, arena, rng, 1)[0]


def lay_out_calls(
    task: KernelTask,
    workload: Workload,
    inputs: Mapping[str, torch.Tensor],
    parameters: ParameterSet,
    arena: Arena,
) -> list[Call]:
    """CALLS_AT_ONCE calls with these activations and states (by name), each in slots of its own, above what the arena
    holds already."""

    def place(spec: TensorSpec) -> Place:
        role = spec.role if isinstance(spec, InputSpec) else None
        if role is InputRole.PARAMETER:
            return parameters.places[spec.name]
        segment = Segment.INPUTS if role is InputRole.ACTIVATION else Segment.OUTPUTS
        slot = arena.allocate(segment, spec.size_bytes(workload.axes))
        if role is not None:
            view_of(arena, slot, spec, workload.axes).copy_(inputs[spec.name])
        return slot

    specs = (*task.inputs, *task.outputs)
    return [Call(tensors=tuple(map(place, specs)), parameter_set=0) for _ in range(CALLS_AT_ONCE)]
