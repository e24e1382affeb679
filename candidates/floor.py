"""The floor of an op: the least time that the device's measured ceilings allow one call."""

import functools
from dataclasses import dataclass, field

import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils.flop_counter import FlopCounterMode

from candidates.device import DeviceCeilings
from candidates.reference import load_reference
from candidates.task import KernelTask, Workload

_COUNTS_KEPT = 256


def floor_us(
    task: KernelTask, workload: Workload, ceilings: DeviceCeilings, parameter_bytes: int | None = None
) -> float:
    """The larger of moving every input and output once and of the reference's matrix arithmetic, for one call.

    Cold parameters come from memory, everything else from the level that holds one call's working set. Elementwise
    arithmetic is not counted. Parameters count as a kernel may keep them, or `parameter_bytes` where they are packed.
    """
    if parameter_bytes is None:
        parameter_bytes = task.kept_parameter_bytes()
    moving_bytes = task.activation_bytes(workload)
    flops = count_flops(task, workload)
    rate = ceilings.bytes_per_s(moving_bytes + parameter_bytes)
    if parameters_are_cold(task, last_cache_bytes(ceilings)):
        memory_rate = ceilings.bytes_per_s(ceilings.read[-1].working_set_bytes)
        moving_s = parameter_bytes / memory_rate + moving_bytes / ceilings.bytes_per_s(moving_bytes)
    else:
        moving_s = (parameter_bytes + moving_bytes) / rate
    return 1e6 * max(moving_s, flops / ceilings.peak_flops_per_s(spec.element_type for spec in task.inputs))


def parameters_are_cold(task: KernelTask, last_cache_bytes: int) -> bool:
    """Whether serving finds the parameters in memory: all instances together outgrow half of the last cache.

    As the model holds them: what a kernel packs one op's into would fit, but not beside those of all other ops.
    """
    return task.parameter_bytes() * task.instances > last_cache_bytes / 2


def last_cache_bytes(ceilings: DeviceCeilings) -> int:
    """The last level of `read` lies far outside all caches, the one before it is the last cache."""
    return ceilings.read[-2].working_set_bytes


def count_flops(task: KernelTask, workload: Workload) -> int:
    """Matrix products and convolutions of the reference at this shape, two for a multiply-add; nothing is run.

    Kept for the shapes that were asked for last: a race asks at every look.
    """
    return _count(_Shape(task_id=task.id, workload_name=workload.name, task=task, workload=workload))


@dataclass(frozen=True, slots=True, kw_only=True)
class _Shape:
    """Of a task, known by names that tell all that is counted."""

    task_id: str
    workload_name: str
    task: KernelTask = field(compare=False)
    workload: Workload = field(compare=False)


@functools.lru_cache(maxsize=_COUNTS_KEPT)
def _count(shape: _Shape) -> int:
    task, axes = shape.task, shape.workload.axes
    counter = FlopCounterMode(display=False)
    with FakeTensorMode(), torch.no_grad():
        inputs = [
            torch.empty_strided(spec.sizes(axes), spec.strides(axes), dtype=getattr(torch, spec.element_type.value))
            for spec in task.inputs
        ]
        with counter:
            load_reference(task.reference)(*inputs)
    return int(counter.get_total_flops())
