"""Fixing the best baseline of each workload, once and before any race, so that no candidate picks its opponent."""

import time
from collections.abc import Sequence

import numpy as np

from candidates.benchmark.baseline import BaselineFailed
from candidates.benchmark.contest import Contest
from candidates.benchmark.pairing import Sample, Sampler, Side, call_times_us
from candidates.benchmark.statistics import median
from candidates.measurement import Baseline
from candidates.record import Record
from candidates.task import KernelTask, Workload

_ALWAYS_THERE = (Baseline.EAGER, Baseline.EAGER_OUT)
_ROUNDS, _FEWEST_ROUNDS, _ROUNDS_S = 11, 3, 0.4


class BestBaseline(Record):
    best: Baseline
    times_us: dict[Baseline, float]
    """Of one call, dispatch included; a baseline that PyTorch cannot run is missing."""

    @property
    def time_us(self) -> float:
        return self.times_us[self.best]


class BestBaselines(Record):
    """By workload name."""

    by_workload: dict[str, BestBaseline]


def fix_best_baselines(
    contest: Contest, task: KernelTask, baselines: Sequence[Baseline], rng: np.random.Generator
) -> BestBaselines:
    return BestBaselines(
        by_workload={w.name: _fix_best_baseline(contest, w, baselines, rng) for w in task.public_workloads}
    )


def _fix_best_baseline(
    contest: Contest, workload: Workload, baselines: Sequence[Baseline], rng: np.random.Generator
) -> BestBaseline:
    """Rounds in which every baseline takes one sample, in random order."""
    with contest.sampler(workload, 1) as sampler:
        sides = _lay_out(contest, baselines, sampler, 1)
        estimates_us = [sampler.estimate_us(side) for side in sides.values()]
    count = contest.choose_count(workload, max(estimates_us), min(estimates_us))
    with contest.sampler(workload, count) as sampler:
        sides = _lay_out(contest, list(sides), sampler, count)
        samples: dict[Baseline, list[Sample]] = {baseline: [] for baseline in sides}
        deadline_s = time.monotonic() + _ROUNDS_S * len(sides)
        for turn in range(_ROUNDS):
            if turn >= _FEWEST_ROUNDS and time.monotonic() > deadline_s:
                break
            for index in rng.permutation(len(sides)):
                baseline = list(sides)[index]
                samples[baseline].append(sampler.sample(sides[baseline], count))
    times_us = {}
    for baseline, taken in samples.items():
        undisturbed = [sample for sample in taken if not sample.was_preempted] or taken
        times_us[baseline] = median(call_times_us(undisturbed, count, shares_core=sampler.shares_core))
    return BestBaseline(best=min(times_us, key=lambda baseline: times_us[baseline]), times_us=times_us)


def _lay_out(contest: Contest, baselines: Sequence[Baseline], sampler: Sampler, count: int) -> dict[Baseline, Side]:
    """Without those that PyTorch cannot fuse, compile or hold in a graph. Raises BaselineFailed for plain eager."""
    sides: dict[Baseline, Side] = {}
    for baseline in baselines:
        try:
            side = contest.baseline(baseline)
            side = side.called_alone() if count == 1 else side
            sampler.lay_out(side, count)
            sides[baseline] = side
        except BaselineFailed:
            if baseline in _ALWAYS_THERE:
                raise
    return sides
