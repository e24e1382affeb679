"""Statistics of exams: known values, and what must hold for any."""

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.exam_statistics import bootstrap_interval, count_above, geometric_mean, wilson_interval

SPEEDUPS = st.lists(st.floats(min_value=0.05, max_value=50), min_size=1, max_size=8)
TRIALS = st.integers(1, 500).flatmap(lambda of: st.tuples(st.integers(0, of), st.just(of)))


def test_wilson_gives_published_values() -> None:
    # Newcombe 1998, table I: 81 of 263, and 0 of 20.
    assert wilson_interval(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson_interval(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson_interval(0, 0) == (0.0, 1.0)


@given(TRIALS)
def test_wilson_holds_the_share_and_mirrors(trial: tuple[int, int]) -> None:
    count, of = trial
    low, high = wilson_interval(count, of)
    assert 0 <= low <= count / of <= high <= 1
    mirrored = wilson_interval(of - count, of)
    assert (low, high) == pytest.approx((1 - mirrored.high, 1 - mirrored.low))


@given(TRIALS)
def test_wilson_narrows_with_trials(trial: tuple[int, int]) -> None:
    count, of = trial
    few, many = wilson_interval(count, of), wilson_interval(10 * count, 10 * of)
    assert many.high - many.low < few.high - few.low


@pytest.mark.parametrize(("count", "of"), [(-1, 3), (4, 3)])
def test_wilson_refuses_what_is_no_share(count: int, of: int) -> None:
    with pytest.raises(ValueError, match=f"{count} of {of}"):
        wilson_interval(count, of)


@given(SPEEDUPS)
def test_the_mean_of_inverses_is_the_inverse(speedups: list[float]) -> None:
    mean = geometric_mean(speedups)
    assert min(speedups) * (1 - 1e-9) <= mean <= max(speedups) * (1 + 1e-9)
    assert geometric_mean([1 / speedup for speedup in speedups]) == pytest.approx(1 / mean)


@pytest.mark.parametrize("values", [[], [1.0, 0.0]])
def test_the_mean_of_nothing_and_of_zero_is_refused(values: list[float]) -> None:
    with pytest.raises(ValueError, match="no geometric mean"):
        geometric_mean(values)


@given(st.floats(min_value=0.05, max_value=50), st.integers(1, 8))
def test_equal_speedups_have_no_width(speedup: float, count: int) -> None:
    assert bootstrap_interval([speedup] * count) == pytest.approx((speedup, speedup))


def test_bootstrap_is_the_same_in_any_order_and_within_the_values() -> None:
    speedups = [0.7, 1.1, 1.3, 2.0, 2.4, 4.1]
    low, high = bootstrap_interval(speedups)
    assert bootstrap_interval(speedups[::-1]) == (low, high)
    assert min(speedups) <= low < geometric_mean(speedups) < high <= max(speedups)
    assert bootstrap_interval(speedups, seed=1) != (low, high)


def test_bootstrap_covers_as_it_says() -> None:
    """Of lognormal speedups of twenty tasks, about 92 % are covered: percentile intervals of few values are narrow."""
    chance = random.Random(7)
    covered = 0
    for number in range(60):
        low, high = bootstrap_interval([math.exp(chance.gauss(0.3, 0.5)) for _ in range(20)], seed=number)
        covered += low <= math.exp(0.3) <= high
    assert covered >= 50


@given(st.lists(st.none() | st.floats(min_value=0.05, max_value=50), max_size=10))
def test_fewer_are_above_more(speedups: list[float | None]) -> None:
    counts = [count_above(speedups, p) for p in (0.0, 1.0, 1.1, 1.5, 2.0)]
    assert counts == sorted(counts, reverse=True)
    assert counts[0] == sum(speedup is not None for speedup in speedups)
