"""Fixing the best baseline of each workload, once and before any race, so that no candidate picks its opponent."""

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

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
    """Rounds in which every baseline takes one sample, in random order. Raises BaselineFailed for plain eager."""
    estimates_us: dict[Baseline, float] = {}
    with contest.sampler(workload, 1) as sampler:
        for baseline in baselines:
            with _left_out_of(estimates_us, baseline):
                estimates_us[baseline] = sampler.estimate_us(_lay_out(contest, baseline, sampler, 1))
    count = contest.choose_count(workload, max(estimates_us.values()), min(estimates_us.values()))
    samples: dict[Baseline, list[Sample]] = {}
    with contest.sampler(workload, count) as sampler:
        sides: dict[Baseline, Side] = {}
        for baseline in estimates_us:
            with _left_out_of(samples, baseline):
                sides[baseline] = _lay_out(contest, baseline, sampler, count)
                samples[baseline] = []
        deadline_s = time.monotonic() + _ROUNDS_S * len(sides)
        for turn in range(_ROUNDS):
            if turn >= _FEWEST_ROUNDS and time.monotonic() > deadline_s:
                break
            left = list(samples)
            for index in rng.permutation(len(left)):
                with _left_out_of(samples, left[index]):
                    samples[left[index]].append(sampler.sample(sides[left[index]], count))
    times_us = {}
    for baseline, taken in samples.items():
        undisturbed = [sample for sample in taken if not sample.was_preempted] or taken
        times_us[baseline] = median(call_times_us(undisturbed, count, shares_core=sampler.shares_core))
    return BestBaseline(best=min(times_us, key=lambda baseline: times_us[baseline]), times_us=times_us)


def _lay_out(contest: Contest, baseline: Baseline, sampler: Sampler, count: int) -> Side:
    side = contest.baseline(baseline)
    sampler.lay_out(side, count)
    return side


@contextmanager
def _left_out_of(results: dict[Baseline, Any], baseline: Baseline) -> Iterator[None]:
    """Where PyTorch cannot fuse, compile, run or hold it in a graph. Raises BaselineFailed for plain eager."""
    try:
        yield
    except BaselineFailed:
        if baseline in _ALWAYS_THERE:
            raise
        results.pop(baseline, None)
