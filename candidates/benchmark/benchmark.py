"""Benchmark: how fast a candidate is beside the best that PyTorch and the live build do, by protocol PAIR-7.

Screening is a cheap look, a race decides one candidate in one process, a confirmation repeats it in fresh processes.
"""

import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from candidates.benchmark.audit import Caught
from candidates.benchmark.best_baseline import (
    BestBaseline,
    BestBaselines,
    fix_best_baselines,
)
from candidates.benchmark.bout import Bout, is_settled
from candidates.benchmark.contest import Contest
from candidates.benchmark.pairing import PreemptionProvoked, Side
from candidates.benchmark.statistics import (
    FRESH_PROCESSES,
    PAIRS_PER_LOOK,
    PROTECTED_SPEEDUP,
    SCREEN_KILL_SPEEDUP,
    TotalSpeedup,
    WorkloadSpeedup,
    decide_by_signs,
    decide_confirmation,
    decide_race,
    is_shown_slower,
    median,
    weigh_by_traffic,
)
from candidates.benchmark.track import Track
from candidates.candidate import Candidate
from candidates.ceilings import measure_ceilings_again
from candidates.device import DeviceCeilings
from candidates.judge.defences import ALL_DEFENCES, Defences
from candidates.judge.endings import fault_of_ending
from candidates.judge.outputs import Fault
from candidates.kernel_runner import NoGraph, RunnerEnded
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.task import KernelTask, Workload
from candidates.verdict import Evidence, Reason, Rejected
from candidates.whole_file import write_whole

SCREEN_PAIRS = 5
PROTECTED_PAIRS = 100
_SCREEN_S = 30.0
_LEAST_SHARE_TO_LOSE = 0.5
"""Of the time of all workloads: what a screening gives up after."""
_FEWEST_PAIRS_TO_LOSE = 20
_PRECISE_PAIRS, _PRECISE_WIDTH = 20, 1.02
_CLEAR_SPEEDUP, _CLEAR_WIDTH = 1.25, 1.15
"""Far above the margin a wider interval is as good as a narrow one near it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveKernel:
    """The kernel of the serving build that is live now, built for the same task."""

    candidate: Candidate
    artifact: bytes


class Benchmark:
    """Only one measurement runs on a device at a time: every method waits for the others."""

    def __init__(
        self,
        track: Track,
        ceilings: DeviceCeilings,
        *,
        cache_folder: Path,
        baselines: Sequence[Baseline] | None = None,
        measure_again: Callable[[DeviceCeilings], DeviceCeilings] = measure_ceilings_again,
        defences: Defences = ALL_DEFENCES,
    ) -> None:
        """`cache_folder` keeps the baselines fixed for each task.

        `baselines` may leave out some of the track's, as torch.compile, which takes seconds for every shape.
        `measure_again` has the last word before a time is called impossible.
        """
        self._track = track
        self._ceilings = ceilings
        self._cache_folder = cache_folder
        self._baselines = track.baselines if baselines is None else tuple(baselines)
        self._measure_again = measure_again
        self._defences = defences

    def fix_best_baselines(self, task: KernelTask, threads: int | None = None) -> Mapping[str, BestBaseline]:
        """By name of the public workload; measured once for each task and thread count, then kept."""
        threads = threads or task.threads
        kept = self._cache_folder / "baselines" / f"{task.id}-{threads}-{'-'.join(self._baselines)}.json"
        if kept.exists():
            return BestBaselines.model_validate_json(kept.read_text()).by_workload
        with self._contest(task, threads) as (contest, rng):
            best = fix_best_baselines(contest, task, self._baselines, rng)
        write_whole(kept, best.model_dump_json().encode())
        return best.by_workload

    def screen(
        self,
        task: KernelTask,
        candidate: Candidate,
        artifact: bytes,
        *,
        live: LiveKernel | None = None,
        incumbent: Measurement | None = None,
    ) -> Measurement | Rejected:
        """Five pairs a workload, on one core of a CPU, heaviest first, while compilers may work on the others; LOSE as
        soon as it is far behind, else UNDECIDED.

        `incumbent` is the best screening of the task so far: what is far behind that one has lost too, and counts as
        far behind on the workloads that it was spared.
        """
        began_s = time.monotonic()
        threads = self._track.screening_threads(task)
        best = self.fix_best_baselines(task, threads)
        seed = secrets.randbits(63)

        def run() -> Measurement:
            bout_of = self._bout(task, candidate, artifact, best, live, threads=threads, seed=seed, beside_builds=True)
            with bout_of as bout:
                measured: list[Workload] = []
                decision = Decision.UNDECIDED
                for workload in _heaviest_first(task, best):
                    bout.take(workload, SCREEN_PAIRS, began_s + _SCREEN_S)
                    measured.append(workload)
                    total = weigh_by_traffic([bout.speedup(workload) for workload in measured])
                    if _share_of_time(measured, task, best) < _LEAST_SHARE_TO_LOSE:
                        continue
                    if total.speedup < SCREEN_KILL_SPEEDUP:
                        decision = Decision.LOSE
                        break
                    if incumbent and total.speedup < SCREEN_KILL_SPEEDUP * (rival := _over(incumbent, measured)):
                        decision = Decision.LOSE
                        total = total.times(incumbent.traffic_weighted_speedup / rival)
                        break
                workloads = tuple(bout.measurement(workload, Decision.UNDECIDED) for workload in measured)
                return _measurement(Stage.SCREEN, task, threads, workloads, total, decision, bout, began_s)

        return _caught(run, seed)

    def race(
        self,
        task: KernelTask,
        candidate: Candidate,
        artifact: bytes,
        *,
        live: LiveKernel | None = None,
        most_pairs: int = 400,
        most_s: float = 20.0,
    ) -> Measurement | Rejected:
        """The sequential sign test on every workload, with the threads of serving.

        `most_pairs` caps one workload, `most_s` all of them together.
        """
        began_s = time.monotonic()
        best = self.fix_best_baselines(task)
        seed = secrets.randbits(63)

        def run() -> Measurement:
            with self._bout(task, candidate, artifact, best, live, threads=task.threads, seed=seed) as bout:
                deadline_s = time.monotonic() + most_s
                ratios: dict[str, list[float]] = {}
                running = list(order := _heaviest_first(task, best))
                while running:
                    for workload in tuple(running):
                        seen = ratios[workload.name] = bout.take(workload, PAIRS_PER_LOOK, deadline_s).ratios()
                        if is_settled(seen, PROTECTED_PAIRS) or len(seen) >= most_pairs:
                            running.remove(workload)
                    total = weigh_by_traffic([bout.speedup(workload) for workload in order])
                    any_is_slower = any(map(is_shown_slower, ratios.values()))
                    decisions = {name: decide_by_signs(seen) for name, seen in ratios.items()}
                    decision = decide_race(total, list(decisions.values()), any_is_slower=any_is_slower)
                    is_lost = decision is Decision.LOSE and min(map(len, ratios.values())) >= _FEWEST_PAIRS_TO_LOSE
                    if any_is_slower or is_lost or time.monotonic() > deadline_s:
                        break
                # Each of them: what is amortised at one shape would be hidden behind another that is won honestly.
                if decision is Decision.WIN and not _are_seen_alone(bout, order, most_s):
                    decision = Decision.UNDECIDED
                workloads = tuple(bout.measurement(workload, decisions[workload.name]) for workload in order)
                return _measurement(Stage.RACE, task, task.threads, workloads, total, decision, bout, began_s)

        return _caught(run, seed)

    def confirm(
        self,
        task: KernelTask,
        candidate: Candidate,
        artifact: bytes,
        *,
        live: LiveKernel | None = None,
        processes: int = FRESH_PROCESSES,
        pairs: int = 100,
        most_s: float = 60.0,
    ) -> Measurement | Rejected:
        """The race again in fresh processes on fresh inputs; medians over the processes, intervals are their ranges."""
        began_s = time.monotonic()
        best = self.fix_best_baselines(task)
        seed = secrets.randbits(63)
        order = _heaviest_first(task, best)

        def run() -> Measurement:
            rounds: list[tuple[WorkloadMeasurement, ...]] = []
            totals: list[float] = []
            for _ in range(processes):
                with self._bout(task, candidate, artifact, best, live, threads=task.threads, seed=seed) as bout:
                    deadline_s = time.monotonic() + most_s / processes
                    for workload in order:
                        self._take_until_precise(bout, workload, pairs, deadline_s)
                    totals.append(weigh_by_traffic([bout.speedup(workload) for workload in order]).speedup)
                    rounds.append(tuple(bout.measurement(workload, Decision.UNDECIDED) for workload in order))
            workloads = tuple(_over_processes(seen) for seen in zip(*rounds, strict=True))
            decision = decide_confirmation(totals)
            if any(workload.interval.high < PROTECTED_SPEEDUP for workload in workloads):
                decision = Decision.LOSE
            total = TotalSpeedup(speedup=median(totals), interval=Interval(min(totals), max(totals)))
            return _measurement(Stage.CONFIRM, task, task.threads, workloads, total, decision, bout, began_s)

        return _caught(run, seed)

    @staticmethod
    def _take_until_precise(bout: Bout, workload: Workload, pairs: int, deadline_s: float) -> None:
        while True:
            taken = bout.take(workload, _PRECISE_PAIRS, deadline_s).pairs
            low, high = bout.speedup(workload).interval
            is_precise = high / low < (_PRECISE_WIDTH if low < _CLEAR_SPEEDUP else _CLEAR_WIDTH)
            if taken >= pairs or is_precise or time.monotonic() > deadline_s:
                return

    @contextmanager
    def _contest(
        self, task: KernelTask, threads: int, *, beside_builds: bool = False
    ) -> Iterator[tuple[Contest, np.random.Generator]]:
        rng = np.random.default_rng()
        with (
            self._track.reserve(threads, beside_builds=beside_builds) as core,
            Contest(task, self._track, self._ceilings, rng, core, threads, self._defences) as contest,
        ):
            yield contest, rng

    @contextmanager
    def _bout(
        self,
        task: KernelTask,
        candidate: Candidate,
        artifact: bytes,
        best: Mapping[str, BestBaseline],
        live: LiveKernel | None,
        *,
        threads: int,
        seed: int,
        beside_builds: bool = False,
    ) -> Iterator[Bout]:
        with self._contest(task, threads, beside_builds=beside_builds) as (contest, _):
            dispatch_us = self._ceilings.dispatch_us
            handshake = contest.enter_handshake()
            current: Sequence[Side] = ()
            if live:
                current, _ = contest.enter(live.candidate, live.artifact, is_judged=False, dispatch_us=dispatch_us)
            sides, prepared = contest.enter(candidate, artifact, is_judged=True, dispatch_us=dispatch_us)
            yield Bout(
                contest,
                best,
                sides,
                prepared,
                current,
                handshake,
                self._ceilings,
                self._measure_again,
                seed,
                self._defences,
            )


def _are_seen_alone(bout: Bout, workloads: Sequence[Workload], most_s: float) -> bool:
    """Of each workload. Raises Caught."""
    return all(bout.refuse_amortised(workload, time.monotonic() + most_s) for workload in workloads)


def _caught(run: Callable[[], Measurement], seed: int) -> Measurement | Rejected:
    try:
        return run()
    except Caught as caught:
        return caught.rejected
    except PreemptionProvoked as provoked:
        fault = Fault(reason=Reason.PROVOKED_PREEMPTION, message=str(provoked))
        log_tail = ""
    except NoGraph as refused:
        fault = Fault(reason=Reason.CRASHED, message=f"{refused}, though one held some of them")
        log_tail = ""
    except RunnerEnded as ended:
        fault = fault_of_ending(ended, Reason.CRASHED)
        log_tail = ended.finished.log
    evidence = Evidence(message=f"while it was timed: {fault.message}", log_tail=log_tail)
    return Rejected(reason=fault.reason, workload=None, evidence=evidence, seed=seed)


def _heaviest_first(task: KernelTask, best: Mapping[str, BestBaseline]) -> list[Workload]:
    """Public workloads by the time that traffic spends in them now."""
    return sorted(task.public_workloads, key=lambda w: -w.calls_per_hour * best[w.name].time_us)


def _share_of_time(measured: list[Workload], task: KernelTask, best: Mapping[str, BestBaseline]) -> float:
    def time_us(workloads: Sequence[Workload]) -> float:
        return sum(workload.calls_per_hour * best[workload.name].time_us for workload in workloads)

    everything = time_us(task.public_workloads)
    return time_us(measured) / everything if everything else len(measured) / len(task.public_workloads)


def _over(incumbent: Measurement, workloads: Sequence[Workload]) -> float:
    """Its speedup over these workloads, all of which it has met."""
    known = {each.workload: each for each in incumbent.workloads}
    speedups = [
        WorkloadSpeedup(
            calls_per_hour=workload.calls_per_hour,
            baseline_us=(met := known[workload.name]).baselines_us[met.best_baseline],
            speedup=met.speedup_over_best,
            interval=met.interval,
        )
        for workload in workloads
    ]
    return weigh_by_traffic(speedups).speedup


def _over_processes(seen: tuple[WorkloadMeasurement, ...]) -> WorkloadMeasurement:
    """One workload over several fresh processes."""
    speedups = [one.speedup_over_best for one in seen]
    interval = Interval(min(speedups), max(speedups))
    decision = decide_confirmation(speedups)
    told_us = [one.device_us for one in seen if one.device_us is not None]
    return seen[0].model_copy(
        update={
            "candidate_us": median([one.candidate_us for one in seen]),
            "kernel_only_us": median([one.kernel_only_us for one in seen]),
            "device_us": median(told_us) if told_us else None,
            "is_graph": 2 * sum(one.is_graph for one in seen) > len(seen),
            "share_of_floor": median([one.share_of_floor for one in seen]),
            "speedup_over_best": median(speedups),
            "interval": interval,
            "pairs": sum(one.pairs for one in seen),
            "decision": decision,
        }
    )


def _measurement(
    stage: Stage,
    task: KernelTask,
    threads: int,
    workloads: tuple[WorkloadMeasurement, ...],
    total: TotalSpeedup,
    decision: Decision,
    bout: Bout,
    began_s: float,
) -> Measurement:
    return Measurement(
        stage=stage,
        device_id=task.device_id,
        threads=threads,
        workloads=workloads,
        traffic_weighted_speedup=total.speedup,
        interval=total.interval,
        decision=decision,
        prepare_us=bout.prepare_us,
        prepared_bytes=bout.prepared_bytes,
        wall_s=time.monotonic() - began_s,
    )
