"""Contest: one arena with a task's parameters in it, and the sides that compete there on one workload after another."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from candidates.benchmark.pairing import Sampler, Side, choose_count
from candidates.benchmark.slots import ContentPool, Slots, call_bytes, place_parameters
from candidates.benchmark.track import Track, Venue
from candidates.candidate import Candidate
from candidates.device import DeviceCeilings
from candidates.floor import floor_us, last_cache_bytes, parameters_are_cold
from candidates.inputs import Distribution, draw_input
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.kernel_runner import Prepared
from candidates.measurement import Baseline
from candidates.task import InputRole, KernelTask, Workload
from kernel_sandbox.arena import Arena, slot_bytes

_WARM_PARAMETER_SETS, _COLD_PARAMETER_SETS = 2, 16


class Contest:
    """Closes its arena, its candidates and its baseline sessions; the baseline processes stay with their pool."""

    def __init__(
        self,
        task: KernelTask,
        track: Track,
        ceilings: DeviceCeilings,
        rng: np.random.Generator,
        core: int | None,
        threads: int,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        """`core`: all sides run there; None: on all cores."""
        self.task = task
        self.are_parameters_cold = parameters_are_cold(task, last_cache_bytes(ceilings))
        self.parameter_sets = _count_parameter_sets(task, ceilings, track.sample_us)
        self._warm_ups = 1 if self.are_parameters_cold else self.parameter_sets
        self._track = track
        # A device has none; its own is all that lies between it and memory.
        own = -2 if track.is_device else -3
        self._private_cache_bytes = ceilings.read[own].working_set_bytes if len(ceilings.read) >= -own else 0
        self._content = ContentPool(rng, is_fresh=Defence.FRESH_TIMED_CONTENT in defences)
        self._flush = track.make_flush(last_cache_bytes(ceilings)) if self.are_parameters_cold else None
        self._baselines: dict[Baseline, Side] = {}
        self._open = ExitStack()
        arena = self._open.enter_context(_make_arena(task, self.parameter_sets, self._warm_ups, track.slots_bytes))
        self._open.callback(self.close_baselines)
        self._venue = Venue(task=task, arena=arena, core=core, threads=threads, is_cold=self.are_parameters_cold)
        axes = task.workloads[0].axes
        self._parameters = place_parameters(
            task,
            arena,
            [
                {spec.name: draw_input(spec, axes, Distribution.NORMAL, rng) for spec in parameters}
                for parameters in [task.inputs_of(InputRole.PARAMETER)] * self.parameter_sets
            ],
        )

    def baseline(self, baseline: Baseline) -> Side:
        """Opened when first asked for. Raises BaselineFailed."""
        if baseline not in self._baselines:
            self._baselines[baseline] = self._track.open_baseline(baseline, self._venue)
        return self._baselines[baseline]

    def close_baselines(self) -> None:
        """Each is opened again when it is next asked for; those whose process is gone get a new one."""
        while self._baselines:
            self._baselines.popitem()[1].runner.close()

    def enter_handshake(self) -> Side:
        """A runner without a kernel, frozen. The contest closes it. Raises SandboxError."""
        side = self._track.open_handshake(self._venue)
        self._open.callback(side.runner.close)
        side.runner.freeze()
        return side

    def enter(
        self, candidate: Candidate, artifact: bytes, *, is_judged: bool, dispatch_us: float
    ) -> tuple[tuple[Side, ...], Prepared]:
        """The forms of a kernel in one process, prepared with all parameter sets and frozen. The contest closes it.

        Raises RunnerEnded for a kernel that cannot be loaded or prepared, without `is_judged` SandboxError instead.
        """
        forms = self._track.open_kernel(candidate, artifact, self._venue, is_judged=is_judged, dispatch_us=dispatch_us)
        runner = forms[0].runner
        self._open.callback(runner.close)
        prepared = runner.prepare([parameters.places for parameters in self._parameters])
        runner.freeze()
        return forms, prepared

    def choose_count(self, workload: Workload, baseline_us: float, candidate_us: float) -> int:
        """Calls in a sample: as the times ask, within the arena, and no set of cold parameters twice.

        One set is left for the warm-up call, where there are several.
        """
        slots_fit = self._private_cache_bytes // call_bytes(self.task, workload)
        room = max(self._track.slots_bytes // call_bytes(self.task, workload) - self._warm_ups, 1)
        most = min(room, max(self.parameter_sets - 1, 1)) if self.are_parameters_cold else room
        return min(choose_count(baseline_us, candidate_us, slots_fit, self._track.sample_us), most)

    @contextmanager
    def sampler(self, workload: Workload, count: int) -> Iterator[Sampler]:
        """Slots for `count` calls and the warm-up calls."""
        slots = Slots(self.task, workload, count + self._warm_ups, self._venue.arena, self._parameters)
        try:
            slots.refresh(self._content)
            yield Sampler(
                slots,
                self._content,
                self._flush,
                shares_core=self._venue.core is not None,
                is_device=self._track.is_device,
                warm_ups=self._warm_ups,
            )
        finally:
            slots.close()

    def close(self) -> None:
        self._open.close()

    def __enter__(self) -> "Contest":
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def _count_parameter_sets(task: KernelTask, ceilings: DeviceCeilings, sample_us: float) -> int:
    """Several where serving has several instances; when cold, enough for one sample of the fastest possible kernel."""
    if not parameters_are_cold(task, last_cache_bytes(ceilings)):
        return min(task.instances, _WARM_PARAMETER_SETS)
    fastest_us = min(floor_us(task, workload, ceilings) for workload in task.public_workloads)
    return min(task.instances, _COLD_PARAMETER_SETS, 1 + math.ceil(sample_us / fastest_us))


def _make_arena(task: KernelTask, parameter_sets: int, warm_ups: int, slots_bytes: int) -> Arena:
    """Room is cheap: pages that are never touched take no memory."""
    axes = task.workloads[0].axes
    parameters = sum(slot_bytes(spec.size_bytes(axes)) for spec in task.inputs_of(InputRole.PARAMETER))
    slots = max(max(slots_bytes, (1 + warm_ups) * call_bytes(task, workload)) for workload in task.workloads)
    return Arena(parameters * parameter_sets + slots, slots)
