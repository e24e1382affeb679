"""Contest: one arena with a task's parameters in it, and the sides that compete there on one workload after another."""

import math
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import numpy as np

from candidates.benchmark.baseline import BaselinePool
from candidates.benchmark.pairing import SAMPLE_US, CacheFlush, Sampler, Side, choose_count
from candidates.benchmark.slots import ContentPool, Slots, call_bytes, place_parameters
from candidates.device import DeviceCeilings
from candidates.floor import floor_us, last_cache_bytes, parameters_are_cold
from candidates.inputs import Distribution, draw_input
from candidates.judge.defences import ALL_DEFENCES, Defence, Defences
from candidates.kernel_runner import KernelRunner, Prepared
from candidates.measurement import Baseline
from candidates.task import InputRole, KernelTask, Workload
from kernel_sandbox.arena import Arena, slot_bytes

_SLOTS_BYTES = 16 << 20
_WARM_PARAMETER_SETS, _COLD_PARAMETER_SETS = 2, 16


class Contest:
    """Closes its arena, its candidates and its baseline sessions; the baseline processes stay with their pool."""

    def __init__(
        self,
        task: KernelTask,
        pool: BaselinePool,
        ceilings: DeviceCeilings,
        rng: np.random.Generator,
        core: int | None,
        threads: int,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        """`core`: all sides run there; None: on all cores."""
        self.task = task
        self.threads = threads
        self.core = core
        self.are_parameters_cold = parameters_are_cold(task, last_cache_bytes(ceilings))
        self.parameter_sets = _count_parameter_sets(task, ceilings)
        self._warm_ups = 1 if self.are_parameters_cold else self.parameter_sets
        self._pool = pool
        self._private_cache_bytes = ceilings.read[-3].working_set_bytes if len(ceilings.read) > 2 else 0
        self._content = ContentPool(rng, is_fresh=Defence.FRESH_TIMED_CONTENT in defences)
        self._flush = CacheFlush(last_cache_bytes(ceilings)) if self.are_parameters_cold else None
        self._baselines: dict[Baseline, Side] = {}
        self._open = ExitStack()
        self.arena = self._open.enter_context(_make_arena(task, self.parameter_sets, self._warm_ups))
        axes = task.workloads[0].axes
        self._parameters = place_parameters(
            task,
            self.arena,
            [
                {spec.name: draw_input(spec, axes, Distribution.NORMAL, rng) for spec in parameters}
                for parameters in [task.inputs_of(InputRole.PARAMETER)] * self.parameter_sets
            ],
        )

    def baseline(self, baseline: Baseline) -> Side:
        """Opened when first asked for. Raises BaselineFailed."""
        if baseline not in self._baselines:
            runner = self._pool.open(baseline, self.task, self.arena, self.core, self.threads)
            self._open.callback(runner.close)
            self._baselines[baseline] = Side(runner=runner, is_trusted=True)
        return self._baselines[baseline]

    def enter(self, runner: KernelRunner, dispatch_us: float) -> tuple[Side, Prepared]:
        """A candidate's side, prepared with all parameter sets and frozen. The contest closes the runner."""
        self._open.callback(runner.close)
        prepared = runner.prepare([parameters.places for parameters in self._parameters])
        runner.freeze()
        return Side(runner=runner, dispatch_us=dispatch_us), prepared

    def choose_count(self, workload: Workload, baseline_us: float, candidate_us: float) -> int:
        """Calls in a sample: as the times ask, within the arena, and no set of cold parameters twice.

        One set is left for the warm-up call, where there are several.
        """
        slots_fit = self._private_cache_bytes // call_bytes(self.task, workload)
        room = max(_SLOTS_BYTES // call_bytes(self.task, workload) - self._warm_ups, 1)
        most = min(room, max(self.parameter_sets - 1, 1)) if self.are_parameters_cold else room
        return min(choose_count(baseline_us, candidate_us, slots_fit), most)

    @contextmanager
    def sampler(self, workload: Workload, count: int) -> Iterator[Sampler]:
        """Slots for `count` calls and the warm-up calls."""
        slots = Slots(self.task, workload, count + self._warm_ups, self.arena, self._parameters)
        try:
            slots.refresh(self._content)
            yield Sampler(
                slots,
                self._content,
                self._flush,
                shares_core=self.core is not None,
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


def _count_parameter_sets(task: KernelTask, ceilings: DeviceCeilings) -> int:
    """Several where serving has several instances; when cold, enough for one sample of the fastest possible kernel."""
    if not parameters_are_cold(task, last_cache_bytes(ceilings)):
        return min(task.instances, _WARM_PARAMETER_SETS)
    fastest_us = min(floor_us(task, workload, ceilings) for workload in task.public_workloads)
    return min(task.instances, _COLD_PARAMETER_SETS, 1 + math.ceil(SAMPLE_US / fastest_us))


def _make_arena(task: KernelTask, parameter_sets: int, warm_ups: int) -> Arena:
    """Room is cheap: pages that are never touched take no memory."""
    axes = task.workloads[0].axes
    parameters = sum(slot_bytes(spec.size_bytes(axes)) for spec in task.inputs_of(InputRole.PARAMETER))
    slots = max(max(_SLOTS_BYTES, (1 + warm_ups) * call_bytes(task, workload)) for workload in task.workloads)
    return Arena(parameters * parameter_sets + slots, slots)
