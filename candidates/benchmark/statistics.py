"""Statistics of paired timings: a sequential sign test, medians with intervals, and the rules that decide a race.

All of it is about ratios baseline / candidate, taken pair by pair: above 1 the candidate is faster. Why signs of pairs
and not means of blocks: timing one block after the other calls an identical kernel 3 % faster in 15-62 % of trials.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from candidates.measurement import Decision, Interval

MARGIN = 1.03
"""A win is a speedup above this: smaller ones are not told apart from layout luck."""
PROTECTED_SPEEDUP = 0.99
WIN_E_VALUE = 200.0
LOSE_E_VALUE = 20.0
PAIRS_PER_LOOK = 10
FRESH_PROCESSES = 7
SCREEN_KILL_SPEEDUP = 1 / 1.5


def log_e_value(successes: int, trials: int) -> float:
    """Natural log of the sign test's e-value against "a success is at most as likely as a failure".

    The e-process of a fair coin mixed over all biases above 1/2,
    E = 2 * 2^n * B(k+1, n-k+1) * P(Beta(k+1, n-k+1) > 1/2); by the identity of the incomplete beta function with
    binomial sums, E = sum_{j<=k} C(n+1, j) / ((n+1) * C(n, k)), which is exact in integers. Its expectation is 1 under
    the null at any stopping time, so E >= a happens with probability 1/a at most (Ville; Ramdas et al. 2023).
    """
    if not 0 <= successes <= trials:
        raise ValueError(f"{successes} successes of {trials} trials")
    binomial = 1
    cumulative = 1
    for j in range(1, successes + 1):
        binomial = binomial * (trials + 2 - j) // j
        cumulative += binomial
    return math.log(cumulative) - math.log(trials + 1) - math.log(math.comb(trials, successes))


def decide_by_signs(ratios: Sequence[float], margin: float = MARGIN) -> Decision:
    """WIN when the ratios are shown above the margin, LOSE when shown at or below it, else UNDECIDED.

    May be asked again after every batch of pairs: stopping at the first decision keeps the error rates,
    1/200 for a false win and 1/20 for a false loss.
    """
    above = sum(ratio > margin for ratio in ratios)
    if log_e_value(above, len(ratios)) >= math.log(WIN_E_VALUE):
        return Decision.WIN
    if log_e_value(len(ratios) - above, len(ratios)) >= math.log(LOSE_E_VALUE):
        return Decision.LOSE
    return Decision.UNDECIDED


def median(values: Sequence[float]) -> float:
    """Of a non-empty sequence; the mean of the middle two for an even count."""
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def median_ratio(ratios: Sequence[float]) -> float:
    """exp of the median of log ratios, so that swapping the sides gives exactly the inverse."""
    return math.exp(median([math.log(ratio) for ratio in ratios]))


def median_interval(values: Sequence[float], confidence: float = 0.95) -> Interval:
    """A distribution-free interval for the median: two order statistics of the values.

    Covers the median with at least `confidence` for 6 values and more; fewer cannot, and give their range.
    """
    ordered = sorted(values)
    count = len(ordered)
    most = math.log((1 - confidence) / 2) + count * math.log(2)
    # The r smallest and r largest may be left out while P(Bin(count, 1/2) <= r) stays below half of what may be missed.
    left_out, subsets = 0, 1
    while left_out + 1 <= (count - 1) // 2:
        subsets += math.comb(count, left_out + 1)
        if math.log(subsets) > most:
            break
        left_out += 1
    return Interval(ordered[left_out], ordered[count - 1 - left_out])


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadSpeedup:
    """What one workload adds to the traffic-weighted total."""

    calls_per_hour: float
    baseline_us: float
    speedup: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class TotalSpeedup:
    speedup: float
    interval: Interval

    def times(self, factor: float) -> "TotalSpeedup":
        interval = Interval(self.interval.low * factor, self.interval.high * factor)
        return TotalSpeedup(speedup=self.speedup * factor, interval=interval)


def weigh_by_traffic(workloads: Sequence[WorkloadSpeedup]) -> TotalSpeedup:
    """sum(w * t_best) / sum(w * t_candidate), with t_candidate = t_best / speedup.

    The interval puts every workload at its low end at once, then at its high end: wider than the truth, never
    narrower. Without any traffic all workloads count alike.
    """
    if not workloads:
        raise ValueError("no workload to weigh")
    has_traffic = any(workload.calls_per_hour > 0 for workload in workloads)
    before = [(w.calls_per_hour if has_traffic else 1.0) * w.baseline_us for w in workloads]

    def total(speedups: Sequence[float]) -> float:
        return sum(before) / sum(time / speedup for time, speedup in zip(before, speedups, strict=True))

    return TotalSpeedup(
        speedup=total([w.speedup for w in workloads]),
        interval=Interval(total([w.interval.low for w in workloads]), total([w.interval.high for w in workloads])),
    )


def is_shown_slower(ratios: Sequence[float]) -> bool:
    """Whether a protected workload is shown to become slower than it may; may be asked again after every look."""
    return decide_by_signs(ratios, PROTECTED_SPEEDUP) is Decision.LOSE


def decide_race(total: TotalSpeedup, decisions: Sequence[Decision], *, any_is_slower: bool) -> Decision:
    """The decision of a race over several workloads, from those of their sign tests.

    WIN: the whole interval of the total lies above the margin, the sign test shows a win at one workload at least, and
    no protected one is shown slower. LOSE: the total cannot reach the margin, or a workload is shown slower.
    """
    if total.interval.high <= MARGIN or any_is_slower:
        return Decision.LOSE
    if total.interval.low > MARGIN and Decision.WIN in decisions:
        return Decision.WIN
    return Decision.UNDECIDED


def decide_confirmation(speedups: Sequence[float], margin: float = MARGIN) -> Decision:
    """WIN when all of at least seven fresh processes lie above the margin (by luck: 1 in 128), LOSE when none does."""
    if len(speedups) < FRESH_PROCESSES:
        raise ValueError(f"{len(speedups)} processes confirm nothing, {FRESH_PROCESSES} are needed")
    if all(speedup > margin for speedup in speedups):
        return Decision.WIN
    return Decision.UNDECIDED if any(speedup > margin for speedup in speedups) else Decision.LOSE
