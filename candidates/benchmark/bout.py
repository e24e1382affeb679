"""Bout: one candidate process against the fixed best baselines, workload by workload."""

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from candidates.benchmark.audit import Audit, Caught
from candidates.benchmark.best_baseline import BestBaseline
from candidates.benchmark.contest import Contest
from candidates.benchmark.pairing import HANDSHAKE_DOUBT_NS, Pairing, Sampler, Side
from candidates.benchmark.statistics import (
    MARGIN,
    WorkloadSpeedup,
    decide_by_signs,
    is_shown_slower,
    median,
    median_interval,
    median_ratio,
)
from candidates.device import DeviceCeilings
from candidates.floor import count_flops, floor_us
from candidates.judge.defences import Defence, Defences
from candidates.judge.outputs import Fault, rejected
from candidates.kernel_runner import NoGraph, Prepared
from candidates.measurement import Baseline, Decision, WorkloadMeasurement
from candidates.task import Workload
from candidates.verdict import Reason

_ESTIMATE_CALLS, _LONGEST_ESTIMATE_US = 8, 1000.0
_TRIAL_PAIRS = 5
_POSSIBLE_SHARE = 0.8
"""A time below this share of the floor is not a good kernel but work that was not done."""
_SINGLE_CALL_PAIRS = 60
_AMORTISED_SHARE, _AMORTISED_CONFIDENCE = 0.5, 0.999


@dataclass(frozen=True, slots=True, kw_only=True)
class _Heat:
    """The pairing of one workload and whom the candidate meets there."""

    pairing: Pairing
    opponent: Baseline
    baselines_us: Mapping[Baseline, float]


class Bout:
    """Raises Caught when the candidate cheats on the clock, RunnerEnded when it ends."""

    def __init__(
        self,
        contest: Contest,
        best: Mapping[str, BestBaseline],
        candidate: Sequence[Side],
        prepared: Prepared,
        current: Sequence[Side],
        handshake: Side,
        ceilings: DeviceCeilings,
        measure_again: Callable[[DeviceCeilings], DeviceCeilings],
        seed: int,
        defences: Defences,
    ) -> None:
        """`candidate` and `current` (empty without a live kernel) are the forms of one process each; on every workload
        the faster one competes. `handshake` is a side without a kernel, which tells what answering costs.

        `measure_again` raises the ceilings where the first measuring of them was disturbed.
        """
        self._prepared = prepared
        self._contest = contest
        self._best = best
        self._candidate = candidate
        self._current = current
        self._handshake = handshake if Defence.BELIEVED_HANDSHAKE in defences else None
        self._ceilings = ceilings
        self._measure_again = measure_again
        self._seed = seed
        self._rng = np.random.default_rng(seed)
        self._audit = Audit(contest.task, self._rng, seed) if Defence.TIMED_CALLS_CHECKED in defences else None
        self._defences = defences
        self._heats: dict[str, _Heat] = {}

    @property
    def prepare_us(self) -> float:
        """Of all instances that serving has."""
        return self._prepared.elapsed_ns / 1000 * self._share_of_instances

    @property
    def prepared_bytes(self) -> int:
        return round(self._prepared.size_bytes * self._share_of_instances)

    @property
    def _share_of_instances(self) -> float:
        return self._contest.task.instances / self._contest.parameter_sets

    def take(self, workload: Workload, pairs: int, deadline_s: float) -> Pairing:
        """Adds pairs on one workload, fewer when `time.monotonic()` passes the deadline, one at least."""
        if workload.name not in self._heats:
            self._heats[workload.name] = self._open_heat(workload)
        pairing = self._heats[workload.name].pairing
        with self._contest.sampler(workload, pairing.count) as sampler:
            sampler.lay_out(pairing.baseline, pairing.count)
            sampler.lay_out(pairing.candidate, pairing.count)
            pairing.take(sampler, pairs, deadline_s)
        self._refuse_impossible(workload, pairing)
        return pairing

    def refuse_amortised(self, workload: Workload, deadline_s: float) -> bool:
        """Whether single calls were seen often enough to tell if the win is the batch's: at one call a handshake at
        least half of the difference must be left.

        Raises Caught when it is shown to be less.
        """
        batched = self._heats[workload.name].pairing
        if batched.count == 1 or Defence.SINGLE_CALLS not in self._defences:
            return True
        single = Pairing(batched.baseline, batched.candidate, 1, self._rng, self._audit, self._handshake)
        with self._contest.sampler(workload, batched.count) as sampler:
            sampler.lay_out(single.baseline, 1)
            sampler.lay_out(single.candidate, 1)
            single.take(sampler, _SINGLE_CALL_PAIRS, deadline_s)
        # What is amortised below the doubt about handshakes stays unseen.
        most_us = median_interval(single.differences_us(), _AMORTISED_CONFIDENCE).high + HANDSHAKE_DOUBT_NS / 1000
        batched_us = median(batched.differences_us())
        is_seen = single.pairs >= _SINGLE_CALL_PAIRS // 2
        if is_seen and most_us < _AMORTISED_SHARE * batched_us:
            self._catch(
                Reason.AMORTISED,
                workload,
                f"{batched_us:.2f} us faster a call in batches of {batched.count}, at most {most_us:.2f} us alone",
            )
        return is_seen

    def speedup(self, workload: Workload) -> WorkloadSpeedup:
        pairing = self._heats[workload.name].pairing
        ratios = pairing.ratios()
        return WorkloadSpeedup(
            calls_per_hour=workload.calls_per_hour,
            baseline_us=median(pairing.baseline_times_us()) + pairing.baseline.dispatch_us,
            speedup=median_ratio(ratios),
            interval=median_interval(ratios),
        )

    def measurement(self, workload: Workload, decision: Decision) -> WorkloadMeasurement:
        heat = self._heats[workload.name]
        speedup = self.speedup(workload)
        kernel_only_us = median(heat.pairing.candidate_times_us())
        task = self._contest.task
        return WorkloadMeasurement(
            workload=workload.name,
            candidate_us=kernel_only_us + heat.pairing.candidate.dispatch_us,
            kernel_only_us=kernel_only_us,
            device_us=heat.pairing.candidate_device_us(),
            is_graph=heat.pairing.candidate.is_graph,
            baselines_us=dict(heat.baselines_us) | {heat.opponent: speedup.baseline_us},
            best_baseline=heat.opponent,
            speedup_over_best=speedup.speedup,
            interval=speedup.interval,
            pairs=heat.pairing.pairs,
            share_of_floor=floor_us(task, workload, self._ceilings) / kernel_only_us,
            parameters_are_cold=self._contest.are_parameters_cold,
            decision=decision,
            flops=count_flops(task, workload),
            moved_bytes=task.moved_bytes(workload),
        )

    def _open_heat(self, workload: Workload) -> _Heat:
        best = self._best[workload.name]
        opponent, baselines_us = best.best, dict(best.times_us)
        baseline = self._contest.baseline(best.best)
        with self._contest.sampler(workload, self._estimate_calls(workload, best.time_us)) as sampler:
            candidate, candidate_us = _fastest(sampler, self._candidate)
            if self._current:
                current, _ = _fastest(sampler, self._current)
                trial = Pairing(baseline, current, sampler.largest_count, self._rng)
                sampler.lay_out(trial.baseline, trial.count)
                sampler.lay_out(trial.candidate, trial.count)
                trial.take(sampler, _TRIAL_PAIRS, math.inf)
                baselines_us[Baseline.CURRENT] = median(trial.candidate_times_us()) + current.dispatch_us
                if median_ratio(trial.ratios()) > 1:
                    opponent, baseline = Baseline.CURRENT, current
        count = self._contest.choose_count(workload, baselines_us[opponent], candidate_us)
        pairing = Pairing(baseline, candidate, count, self._rng, self._audit, self._handshake)
        return _Heat(pairing=pairing, opponent=opponent, baselines_us=baselines_us)

    def _estimate_calls(self, workload: Workload, baseline_us: float) -> int:
        most = self._contest.choose_count(workload, baseline_us, baseline_us / 100)
        return max(1, min(_ESTIMATE_CALLS, most, int(_LONGEST_ESTIMATE_US / baseline_us)))

    def _refuse_impossible(self, workload: Workload, pairing: Pairing) -> None:
        task, parameter_bytes = self._contest.task, None
        if self._prepared.size_bytes:
            # A candidate may have packed its parameters into fewer bytes than the task's.
            packed = self._prepared.size_bytes // self._contest.parameter_sets
            parameter_bytes = min(packed, task.kept_parameter_bytes())
        floor = floor_us(task, workload, self._ceilings, parameter_bytes)
        fastest_us = median(pairing.candidate_times_us())
        if fastest_us >= _POSSIBLE_SHARE * floor or Defence.FLOOR not in self._defences:
            return
        if median(pairing.baseline_times_us()) < _POSSIBLE_SHARE * floor:
            return  # PyTorch can do it too: the floor counts bytes that this op need not touch, as of a table's rows
        self._ceilings = self._measure_again(self._ceilings)
        floor = floor_us(task, workload, self._ceilings, parameter_bytes)
        if fastest_us < _POSSIBLE_SHARE * floor:
            self._catch(
                Reason.FASTER_THAN_POSSIBLE,
                workload,
                f"{fastest_us:.2f} us, but this device cannot do it in less than {floor:.2f} us",
            )

    def _catch(self, reason: Reason, workload: Workload, message: str) -> None:
        raise Caught(rejected(workload, Fault(reason=reason, message=message), seed=self._seed))


def _fastest(sampler: Sampler, forms: Sequence[Side]) -> tuple[Side, float]:
    """And what one call takes, in us, without dispatch. The first form is one that every kernel has."""
    times_us: dict[Side, float] = {}
    for side in forms:
        with contextlib.suppress(NoGraph):
            sampler.lay_out(side, sampler.largest_count)
            times_us[side] = sampler.estimate_us(side, sampler.largest_count)
    fastest = min(times_us, key=lambda side: times_us[side] + side.dispatch_us)
    return fastest, times_us[fastest]


def is_settled(ratios: list[float], protected_pairs: int) -> bool:
    """Whether more pairs on a workload would tell nothing that a race needs.

    After a loss the pairs go on until the workload is shown to be no slower, or enough were taken to see 0.97.
    """
    match decide_by_signs(ratios, MARGIN):
        case Decision.WIN:
            return True
        case Decision.LOSE:
            return is_shown_slower(ratios) or len(ratios) >= protected_pairs
        case Decision.UNDECIDED:
            return False
