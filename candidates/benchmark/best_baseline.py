"""Fixing the best baseline of each workload, once and before any race, so that no candidate picks its opponent."""

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from candidates.benchmark.baseline import BaselineFailed, BaselineGone
from candidates.benchmark.contest import Contest
from candidates.benchmark.pairing import Sample, call_times_us
from candidates.benchmark.statistics import median
from candidates.measurement import Baseline
from candidates.record import Record
from candidates.task import KernelTask, Workload

_ALWAYS_THERE = (Baseline.EAGER, Baseline.EAGER_OUT)
_ROUNDS, _FEWEST_ROUNDS, _ROUNDS_S = 11, 3, 0.4
_MOST_DEATHS = 2
"""Of a process in one baseline's turns on one workload: what ended it once may be no fault of that baseline, and one
that is missing leaves candidates a weaker opponent for good."""


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
    """Begun again whenever a process died. Raises BaselineFailed for plain eager."""
    deaths = Counter[Baseline]()
    while True:
        left = [baseline for baseline in baselines if deaths[baseline] < _MOST_DEATHS]
        try:
            return _measure(contest, workload, left, rng, deaths)
        except BaselineGone:
            if any(deaths[baseline] == _MOST_DEATHS for baseline in _ALWAYS_THERE):
                raise
            # Other baselines had the same process: from here on none finds itself in one that died in another's turn.
            contest.close_baselines()


def _measure(
    contest: Contest,
    workload: Workload,
    baselines: Sequence[Baseline],
    rng: np.random.Generator,
    deaths: Counter[Baseline],
) -> BestBaseline:
    """Rounds in which every baseline takes one sample, in random order. Raises BaselineGone for one whose process died,
    and counts it; BaselineFailed for plain eager."""
    estimates_us: dict[Baseline, float] = {}
    with contest.sampler(workload, 1) as sampler:
        for baseline in baselines:
            with _left_out_of(estimates_us, baseline, deaths):
                side = contest.baseline(baseline)
                sampler.lay_out(side, 1)
                estimates_us[baseline] = sampler.estimate_us(side)
    count = contest.choose_count(workload, max(estimates_us.values()), min(estimates_us.values()))
    samples: dict[Baseline, list[Sample]] = {}
    with contest.sampler(workload, count) as sampler:
        for baseline in estimates_us:
            with _left_out_of(samples, baseline, deaths):
                sampler.lay_out(contest.baseline(baseline), count)
                samples[baseline] = []
        deadline_s = time.monotonic() + _ROUNDS_S * len(samples)
        for turn in range(_ROUNDS):
            if turn >= _FEWEST_ROUNDS and time.monotonic() > deadline_s:
                break
            left = list(samples)
            for index in rng.permutation(len(left)):
                with _left_out_of(samples, left[index], deaths):
                    samples[left[index]].append(sampler.sample(contest.baseline(left[index]), count))
    times_us = {}
    for baseline, taken in samples.items():
        undisturbed = [sample for sample in taken if not sample.was_preempted] or taken
        times_us[baseline] = median(call_times_us(undisturbed, count, shares_core=sampler.shares_core))
    return BestBaseline(best=min(times_us, key=lambda baseline: times_us[baseline]), times_us=times_us)


@contextmanager
def _left_out_of(results: dict[Baseline, Any], baseline: Baseline, deaths: Counter[Baseline]) -> Iterator[None]:
    """Where PyTorch cannot fuse, compile, run or hold it in a graph. Raises BaselineFailed for plain eager, and
    BaselineGone for all alike."""
    try:
        yield
    except BaselineGone:
        deaths[baseline] += 1
        raise
    except BaselineFailed:
        if baseline in _ALWAYS_THERE:
            raise
        results.pop(baseline, None)
