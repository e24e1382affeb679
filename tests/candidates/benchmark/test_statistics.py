"""Statistics of paired timings: error rates on synthetic pairs, and properties of medians, intervals and rules."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.benchmark.statistics import (
    FRESH_PROCESSES,
    MARGIN,
    PAIRS_PER_LOOK,
    TotalSpeedup,
    WorkloadSpeedup,
    decide_by_signs,
    decide_confirmation,
    decide_race,
    is_shown_slower,
    log_e_value,
    median,
    median_interval,
    median_ratio,
    weigh_by_traffic,
)
from candidates.measurement import Decision, Interval

ratios = st.lists(st.floats(0.01, 100), min_size=1, max_size=60)


def weighed(speedup: float, low: float, high: float, calls: float = 1.0, baseline_us: float = 10.0) -> WorkloadSpeedup:
    return WorkloadSpeedup(calls_per_hour=calls, baseline_us=baseline_us, speedup=speedup, interval=Interval(low, high))


@given(st.integers(0, 200))
def test_e_value_has_expectation_one_under_a_fair_coin(trials: int) -> None:
    expectation = sum(
        math.exp(log_e_value(k, trials) + math.log(math.comb(trials, k)) - trials * math.log(2))
        for k in range(trials + 1)
    )
    assert expectation == pytest.approx(1.0)


@given(st.integers(0, 100), st.data())
def test_e_value_is_a_martingale_under_a_fair_coin(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    up, down = log_e_value(successes + 1, trials + 1), log_e_value(successes, trials + 1)
    assert (math.exp(up) + math.exp(down)) / 2 == pytest.approx(math.exp(log_e_value(successes, trials)))


@given(st.integers(1, 2000), st.data())
def test_more_successes_are_more_evidence(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(1, trials))
    assert log_e_value(successes, trials) > log_e_value(successes - 1, trials)


def test_e_value_refuses_more_successes_than_trials() -> None:
    with pytest.raises(ValueError, match="3 successes of 2"):
        log_e_value(3, 2)


def sequential_decision(true_ratio: float, sd: float, cap: int, rng: random.Random) -> tuple[Decision, int]:
    seen: list[float] = []
    while len(seen) < cap:
        seen += [true_ratio * math.exp(rng.gauss(0, sd)) for _ in range(PAIRS_PER_LOOK)]
        decision = decide_by_signs(seen)
        if decision is not Decision.UNDECIDED:
            return decision, len(seen)
    return Decision.UNDECIDED, cap


@pytest.mark.parametrize("true_ratio", [1.0, MARGIN])
def test_sequential_test_seldom_wins_at_or_below_the_margin(true_ratio: float) -> None:
    rng = random.Random(7)
    outcomes = [sequential_decision(true_ratio, 0.05, 200, rng)[0] for _ in range(400)]
    assert outcomes.count(Decision.WIN) <= 6  # 1/200 allowed; 6 of 400 has a chance of 1 % at that rate


def test_sequential_test_finds_a_clear_win_within_few_pairs() -> None:
    rng = random.Random(8)
    outcomes = [sequential_decision(1.10, 0.05, 400, rng) for _ in range(100)]
    assert all(decision is Decision.WIN for decision, _ in outcomes)
    assert median([pairs for _, pairs in outcomes]) <= 40


def test_sequential_test_rejects_an_equal_kernel_within_few_pairs() -> None:
    rng = random.Random(9)
    outcomes = [sequential_decision(1.0, 0.02, 400, rng) for _ in range(100)]
    assert all(decision is Decision.LOSE for decision, _ in outcomes)


@given(ratios)
def test_swapping_the_sides_inverts_the_median_ratio(values: list[float]) -> None:
    assert median_ratio([1 / value for value in values]) == pytest.approx(1 / median_ratio(values))


@given(ratios)
def test_interval_holds_the_median(values: list[float]) -> None:
    interval = median_interval(values)
    assert min(values) <= interval.low <= median(values) <= interval.high <= max(values)


def test_interval_covers_the_true_median_as_often_as_it_says() -> None:
    rng = random.Random(10)
    for count in (6, 20, 101):
        intervals = [median_interval([rng.gauss(0, 1) for _ in range(count)]) for _ in range(500)]
        assert sum(interval.low <= 0 <= interval.high for interval in intervals) >= 460


def test_interval_of_thousands_of_pairs_does_not_overflow() -> None:
    assert median_interval([float(value) for value in range(5000)]).low > 2400


@given(
    st.lists(
        st.tuples(st.just(0.0) | st.floats(1e-6, 1e6), st.floats(0.1, 1e5), st.floats(0.1, 10)), min_size=1, max_size=16
    )
)
def test_total_lies_between_the_workloads_speedups(workloads: list[tuple[float, float, float]]) -> None:
    total = weigh_by_traffic([weighed(s, s * 0.9, s * 1.1, calls, time) for calls, time, s in workloads])
    speedups = [s for _, _, s in workloads]
    assert min(speedups) * (1 - 1e-9) <= total.speedup <= max(speedups) * (1 + 1e-9)
    assert total.interval.low <= total.speedup <= total.interval.high


def test_total_weighs_by_time_not_by_calls() -> None:
    total = weigh_by_traffic([weighed(2.0, 2.0, 2.0, 10, 100.0), weighed(1.0, 1.0, 1.0, 1000, 1.0)])
    assert total.speedup == pytest.approx(2000 / 1500)


def test_protected_workload_shown_slower_loses_the_race() -> None:
    total = weigh_by_traffic([weighed(3.0, 2.9, 3.1, 1000), weighed(0.95, 0.93, 0.98, 1)])
    rng = random.Random(11)
    slower = [0.95 * math.exp(rng.gauss(0, 0.02)) for _ in range(100)]
    assert is_shown_slower(slower)
    assert decide_race(total, [Decision.WIN, Decision.LOSE], any_is_slower=True) is Decision.LOSE


def test_equal_workload_is_not_shown_slower() -> None:
    rng = random.Random(12)
    assert not is_shown_slower([math.exp(rng.gauss(0, 0.02)) for _ in range(100)])


def test_race_is_undecided_while_no_workload_has_won() -> None:
    total = TotalSpeedup(speedup=1.2, interval=Interval(1.1, 1.3))
    assert decide_race(total, [Decision.UNDECIDED], any_is_slower=False) is Decision.UNDECIDED
    assert decide_race(total, [Decision.WIN], any_is_slower=False) is Decision.WIN


def test_confirmation_needs_every_fresh_process_above_the_margin() -> None:
    assert decide_confirmation([1.05] * FRESH_PROCESSES) is Decision.WIN
    assert decide_confirmation([1.05] * (FRESH_PROCESSES - 1) + [1.02]) is Decision.UNDECIDED
    assert decide_confirmation([1.0] * FRESH_PROCESSES) is Decision.LOSE
    with pytest.raises(ValueError, match="6 processes"):
        decide_confirmation([1.05] * 6)
