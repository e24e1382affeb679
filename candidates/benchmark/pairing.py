"""Paired samples of two sides over the same slots, in random order, by a clock that neither side can reach."""

import os
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from candidates.benchmark.audit import Audit, Sighting
from candidates.benchmark.slots import ContentPool, Slots
from candidates.benchmark.statistics import median
from candidates.kernel_runner import KernelRunner

_LONGEST_SAMPLE = 10
"""Of the slower side, in the shortest of the faster one."""
HANDSHAKE_DOUBT_NS = 500
"""Handshakes of two processes of equal code differ by up to this."""
SHORTEST_CALL_US, SHORTEST_ESTIMATE_US = 1e-3, 0.1
_ABSENT_NS, _ABSENT_SHARE = 5_000, 0.01
"""On a shared core one of us or the runner must be running all the time; a sample with a longer absence was preempted.
Switch counts would not show it: the handshake preempts by itself, and who waits for the core is not switched out."""
_WARM_UP_CALLS, _WARM_UP_NS = 3, 50_000
"""A warm-up call may take as long as so many calls, and this; what is more is counted. Honest ones took 5 to 40 us."""
_DROPPED_IN_A_ROW = 200
_NULL_TRIES = 5
_SETTLING_TRIES = 5
_ESTIMATE_SAMPLES, _MOST_ESTIMATE_SAMPLES = 3, 12
_PROVOKED_AFTER, _PROVOKED_SHARE = 20, 0.5


class PreemptionProvoked(Exception):
    """The candidate is preempted far more often than its opponent on the same core: it chooses its own samples."""


class MachineTooBusy(Exception):
    """Not a single undisturbed pair could be taken; something else runs on the core that measures."""


class CacheFlush:
    """Streams through a buffer of twice the last cache, so that nothing written before is left in it."""

    def __init__(self, last_cache_bytes: int) -> None:
        self._buffer = np.ones(2 * last_cache_bytes // 8, dtype=np.int64)

    def flush(self) -> None:
        self._buffer.sum()


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One competitor."""

    runner: KernelRunner
    dispatch_us: float = 0.0
    """What serving adds to each of its calls; 0 where a sample contains it."""
    is_trusted: bool = False
    """PyTorch: what it does in a warm-up call is its own affair."""
    alone: KernelRunner | None = None
    """The same where one call is timed and a launch must not count; None: `runner` does."""
    is_graph: bool = False

    def runner_for(self, count: int) -> KernelRunner:
        """Of samples of `count` calls."""
        return self.runner if count > 1 or self.alone is None else self.alone


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    batch_ns: int
    null_ns: int
    was_preempted: bool
    device_ns: int | None = None


def call_times_us(
    samples: Sequence[Sample], count: int, *, shares_core: bool, believed_nulls_ns: Sequence[int] = ()
) -> list[float]:
    """Of one call in each of one side's samples, less the handshake.

    On several cores a handshake may wait for a busy core without our seeing it; then the shortest one is subtracted,
    which moves every ratio towards 1. `believed_nulls_ns` are of a process without a kernel: a candidate that lengthens
    its own handshakes, and so would shorten its calls, gets no more than those.
    """
    typical = median if shares_core else min
    null_ns = typical([sample.null_ns for sample in samples])
    if believed_nulls_ns:
        null_ns = min(null_ns, typical(believed_nulls_ns) + HANDSHAKE_DOUBT_NS)
    return [max((sample.batch_ns - null_ns) / count / 1000, SHORTEST_CALL_US) for sample in samples]


class Sampler:
    """Takes single samples of any side over one workload's slots; the last `warm_ups` of them are for warm-up calls.

    `flush` is given where serving finds the parameters cold and calls do not see to that. With `is_device` the CPU's
    work is copying: what the device does is done at the reply.
    """

    def __init__(
        self,
        slots: Slots,
        content: ContentPool,
        flush: CacheFlush | None,
        *,
        shares_core: bool,
        is_device: bool,
        warm_ups: int,
    ) -> None:
        self.slots = slots
        self._content = content
        self._flush = flush
        self.shares_core = shares_core
        self._is_device = is_device
        self._warm_ups = warm_ups

    @property
    def largest_count(self) -> int:
        return len(self.slots.calls) - self._warm_ups

    def lay_out(self, side: Side, count: int) -> None:
        """For samples of `count` calls."""
        runner = side.runner_for(count)
        runner.thaw()
        axes = self.slots.workload.axes
        runner.lay_out([axes[axis] for axis in self.slots.task.axes], self.slots.calls)
        for first, calls in ((self.largest_count, self._warm_ups), (0, count)):
            runner.rehearse(first, calls)
        runner.freeze()

    def sample(self, side: Side, count: int) -> Sample:
        """`count` calls in one batch; the side is frozen again when this returns."""
        runner = side.runner_for(count)
        runner.thaw()
        if self._flush:
            self._flush.flush()
        # Untimed, with other parameters where they are cold: code and branch predictors are warm in serving. So are all
        # parameters where they are not cold, whatever the other side did to the caches.
        used_ns = runner.cpu_time_ns()
        runner.run(self.largest_count, self._warm_ups)
        warm_up_ns = runner.cpu_time_ns() - used_ns
        null_ns, was_null_preempted = self._run_null(runner, count)
        batch_ns, was_preempted = self._run(runner, lambda: runner.run(0, count))
        device_ns = runner.device_ns()
        runner.freeze()
        if not side.is_trusted and not self._is_device:
            # It may have fetched what the batch needs, or thrown out what its opponent needs.
            expected_ns = _WARM_UP_CALLS * self._warm_ups * max(batch_ns - null_ns, 0) // count + _WARM_UP_NS
            batch_ns += max(warm_up_ns - expected_ns, 0)
        was_preempted = was_preempted or was_null_preempted
        return Sample(batch_ns=batch_ns, null_ns=null_ns, was_preempted=was_preempted, device_ns=device_ns)

    def sample_null(self, side: Side, count: int) -> int:
        """ns of the handshake of a batch as `sample` takes it, of a side without a kernel."""
        runner = side.runner_for(count)
        runner.thaw()
        runner.run_null(0)
        null_ns, _ = self._run_null(runner, count)
        runner.freeze()
        return null_ns

    def _run_null(self, runner: KernelRunner, count: int) -> tuple[int, bool]:
        for _ in range(_NULL_TRIES):
            null_ns, was_preempted = self._run(runner, lambda: runner.run_null(count), is_null=True)
            if not was_preempted:
                break
        return null_ns, was_preempted

    def _run(self, runner: KernelRunner, batch: Callable[[], int], *, is_null: bool = False) -> tuple[int, bool]:
        """(ns, was preempted). On several cores nothing tells waiting for work from waiting for a core: all samples
        count there, and it takes more of them.

        The content is fresh for a null batch too, though a null batch makes no use of it: what a runner does in one is
        of no use for the batch that follows. (On a device a null batch has nothing to do with the kernel.) It is frozen
        while there comes fresh content, and what it then runs before the clock does is added; so is what it runs after
        the reply, where that is possible.
        """
        runner.freeze()
        if not (self._is_device and is_null):
            self.slots.refresh(self._content)
            runner.take_in()
        used_before_ns = used_ns = runner.cpu_time_ns()
        runner.thaw()
        for _ in range(_SETTLING_TRIES):
            # It goes back to waiting for us; that it does so inside the clock would cost more where the core is busy.
            os.sched_yield()
            last_ns, used_ns = used_ns, runner.cpu_time_ns()
            if used_ns == last_ns != used_before_ns:
                break
        untimed_ns = used_ns - used_before_ns
        batch_ns, was_preempted = self._time(runner, batch)
        if self._is_device:
            runner.collect()
            runner.freeze()
        elif not self.shares_core:
            # On another core a thread may go on after the reply, until it is frozen.
            used_ns = runner.cpu_time_ns()
            runner.freeze()
            untimed_ns += runner.cpu_time_ns() - used_ns
        return untimed_ns + batch_ns, was_preempted

    def _time(self, runner: KernelRunner, batch: Callable[[], int]) -> tuple[int, bool]:
        if not self.shares_core:
            return batch(), False
        ran_before_ns = time.thread_time_ns() + runner.cpu_time_ns()
        batch_ns = batch()
        ran_ns = time.thread_time_ns() + runner.cpu_time_ns() - ran_before_ns
        return batch_ns, batch_ns - ran_ns > _ABSENT_NS + _ABSENT_SHARE * batch_ns

    def estimate_us(self, side: Side, count: int = 1) -> float:
        """Of one call, from a few samples, undisturbed ones where there are any."""
        samples = [self.sample(side, count) for _ in range(_ESTIMATE_SAMPLES)]
        while all(sample.was_preempted for sample in samples) and len(samples) < _MOST_ESTIMATE_SAMPLES:
            samples.append(self.sample(side, count))
        kept = [sample for sample in samples if not sample.was_preempted] or samples
        return max(median(call_times_us(kept, count, shares_core=self.shares_core)), SHORTEST_ESTIMATE_US)


class Pairing:
    """Baseline against candidate on one workload: pairs taken so far, and what they say."""

    def __init__(
        self,
        baseline: Side,
        candidate: Side,
        count: int,
        rng: np.random.Generator,
        audit: Audit | None = None,
        handshake: Side | None = None,
    ) -> None:
        """`audit` looks at what each of the candidate's samples left, `handshake` has no kernel: see call_times_us."""
        self.baseline = baseline
        self.candidate = candidate
        self.count = count
        self._samples: dict[bool, list[Sample]] = {True: [], False: []}  # by whether it is the candidate
        self._preempted = {True: 0, False: 0}
        self._shares_core = True
        self._rng = rng
        self._audit = audit
        self._handshake = handshake
        self._believed_nulls_ns: list[int] = []

    @property
    def pairs(self) -> int:
        return len(self._samples[True])

    def take(self, sampler: Sampler, pairs: int, deadline_s: float) -> None:
        """Adds that many pairs, or fewer when `time.monotonic()` passes the deadline; preempted ones do not count.

        Both sides know the sampler's layout. Always leaves one pair at least, or raises MachineTooBusy.
        """
        self._shares_core = sampler.shares_core
        wanted = self.pairs + pairs
        tried = 0
        while self.pairs < wanted and (time.monotonic() < deadline_s or self.pairs == 0):
            tried += 1
            self._take_pair(sampler)
            if self.pairs == 0 and tried >= _DROPPED_IN_A_ROW:
                raise MachineTooBusy(f"{tried} pairs were preempted: stop what else runs on this machine")

    def candidate_times_us(self) -> list[float]:
        """Of one call, without dispatch."""
        return call_times_us(
            self._samples[True],
            self.count,
            shares_core=self._shares_core,
            believed_nulls_ns=self._believed_nulls_ns,
        )

    def candidate_device_us(self) -> float | None:
        """Of one call, by the device's own clock."""
        told_ns = [sample.device_ns for sample in self._samples[True] if sample.device_ns is not None]
        return median(told_ns) / self.count / 1000 if told_ns else None

    def baseline_times_us(self) -> list[float]:
        return call_times_us(self._samples[False], self.count, shares_core=self._shares_core)

    def ratios(self) -> list[float]:
        """baseline / candidate as serving sees them, pair by pair."""
        pairs = zip(self.baseline_times_us(), self.candidate_times_us(), strict=True)
        return [(b + self.baseline.dispatch_us) / (c + self.candidate.dispatch_us) for b, c in pairs]

    def differences_us(self) -> list[float]:
        """baseline - candidate of one call, without dispatch, pair by pair."""
        return [b - c for b, c in zip(self.baseline_times_us(), self.candidate_times_us(), strict=True)]

    def _take_pair(self, sampler: Sampler) -> None:
        taken: dict[bool, Sample] = {}
        first = bool(self._rng.integers(2))
        seen: dict[bool, Sighting] = {}
        for is_candidate in (first, not first):
            sample = sampler.sample(self.candidate if is_candidate else self.baseline, self.count)
            if self._audit:
                # Both sides leave the same traces in the caches: the next sample must not tell which one came before.
                seen[is_candidate] = self._audit.look(sampler.slots, self.count)
            self._preempted[is_candidate] += sample.was_preempted
            taken[is_candidate] = sample
        if self._handshake:
            self._believed_nulls_ns.append(sampler.sample_null(self._handshake, self.count))
        if self._audit:
            self._audit.judge(seen[True])
        self._refuse_provoked_preemption()
        if any(sample.was_preempted for sample in taken.values()):
            return
        for is_candidate, sample in taken.items():
            self._samples[is_candidate].append(sample)

    def _refuse_provoked_preemption(self) -> None:
        ours, theirs = self._preempted[False], self._preempted[True]
        seen = self.pairs + max(ours, theirs)
        if seen >= _PROVOKED_AFTER and theirs > _PROVOKED_SHARE * seen and ours < theirs / 3:
            raise PreemptionProvoked(f"{theirs} of about {seen} samples were preempted, {ours} of the baseline's")


def choose_count(baseline_us: float, candidate_us: float, slots_fit: int, sample_us: float) -> int:
    """Calls in a sample: enough for `sample_us` of the faster side, few enough that the slower one stays bounded.

    `slots_fit`: how many slots the private cache holds; beyond that only as many as less than half of the wanted sample
    needs, since activations are warm in serving.
    """
    faster, slower = min(baseline_us, candidate_us), max(baseline_us, candidate_us)
    wanted = min(sample_us / faster, max(slots_fit, 0.4 * sample_us / faster))
    return max(1, int(min(wanted, _LONGEST_SAMPLE * sample_us / slower)))
