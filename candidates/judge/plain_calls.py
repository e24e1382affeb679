"""PlainCalls: a task's calls on a GPU whose results nobody looks at, under a tool that watches how a kernel runs."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

import numpy as np
import torch

from candidates.candidate import Candidate
from candidates.gpu_fingerprint import gpu_slot
from candidates.inputs import whole_allocation
from candidates.judge.judge import GpuBench
from candidates.judge.python_runner import Watch, open_python_runner
from candidates.judge.runner_process import RunnerProcess
from candidates.judge.trial import ParameterSet, case_bytes, parameters_bytes, place_parameters, view_of
from candidates.kernel_runner import Call
from candidates.task import InputRole, InputSpec, KernelTask, TensorSpec, Workload
from kernel_sandbox.arena import Arena, Place, Segment

CALLS_AT_ONCE = 2
"""Of one shape: what a kernel keeps of one call shows in the next."""
END_LIMIT_S = 60.0
"""Of the tool's own end, in which it writes its report."""


class PlainCalls:
    """One process, and an arena with a set of parameters. Every method raises RunnerEnded as KernelRunner does."""

    def __init__(self, runner: RunnerProcess, task: KernelTask, arena: Arena, parameters: ParameterSet) -> None:
        self.runner = runner
        self._task = task
        self._arena = arena
        self._parameters = parameters
        self._used = {segment: arena.used_bytes(segment) for segment in Segment}

    def prepare(self) -> None:
        self.runner.prepare([tuple(self._parameters.places.values())])

    def lay_out(self, workload: Workload, inputs: Mapping[str, torch.Tensor]) -> None:
        """CALLS_AT_ONCE calls with these activations and states (by name), in place of those before."""
        for segment, bytes_below in self._used.items():
            self._arena.release(segment, bytes_below)
        calls = _place_calls(self._task, workload, inputs, self._parameters, self._arena)
        self.runner.lay_out([workload.axes[axis] for axis in self._task.axes], calls)


@contextmanager
def open_plain_calls(
    bench: GpuBench,
    task: KernelTask,
    candidate: Candidate | None,
    artifact: bytes,
    workloads: Sequence[Workload],
    rng: np.random.Generator,
    *,
    mode: str,
    watch: Watch,
    call_limit_s: float,
) -> Iterator[PlainCalls]:
    """Alone on the GPU, with room for `workloads` and the kernel loaded. Without a candidate there is nothing to call.

    Raises RunnerEnded where the kernel cannot be loaded, and SandboxError as open_python_runner does; without a
    candidate only that.
    """
    with gpu_slot(bench.gpu.uuid), _make_arena(task, workloads) as arena:
        (parameters,) = place_parameters(task, arena, rng, 1)
        runner = open_python_runner(
            bench.sandbox,
            task,
            candidate,
            artifact,
            arena,
            mode,
            call_limit_s=call_limit_s,
            is_judged=candidate is not None,
            watch=watch,
        )
        with closing(runner):
            yield PlainCalls(runner, task, arena, parameters)


def _make_arena(task: KernelTask, workloads: Sequence[Workload]) -> Arena:
    """With room for the parameters and the calls of the largest of them at once."""
    sizes = dict.fromkeys(Segment, 0)
    for workload in workloads:
        for segment, size in case_bytes(task, workload).items():
            sizes[segment] = max(sizes[segment], size)
    return Arena(sizes[Segment.INPUTS] + parameters_bytes(task, 1), sizes[Segment.OUTPUTS])


def _place_calls(
    task: KernelTask,
    workload: Workload,
    inputs: Mapping[str, torch.Tensor],
    parameters: ParameterSet,
    arena: Arena,
) -> list[Call]:
    """Each in slots of its own, above what the arena holds already."""

    def place(spec: TensorSpec) -> Place:
        role = spec.role if isinstance(spec, InputSpec) else None
        if role is InputRole.PARAMETER:
            return parameters.places[spec.name]
        segment = Segment.INPUTS if role is InputRole.ACTIVATION else Segment.OUTPUTS
        slot = arena.allocate(segment, spec.size_bytes(workload.axes))
        if role is not None:
            view = view_of(arena, slot, spec, workload.axes)
            whole_allocation(view, spec, workload.axes).copy_(whole_allocation(inputs[spec.name], spec, workload.axes))
        return slot

    specs = (*task.inputs, *task.outputs)
    return [Call(tensors=tuple(map(place, specs)), parameter_set=0) for _ in range(CALLS_AT_ONCE)]
