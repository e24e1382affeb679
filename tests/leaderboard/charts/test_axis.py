"""Axes and their ticks."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.axis import Axis, linear_ticks, log_ticks, ratio_axis, speedup_axis, time_ticks

positive = st.floats(1e-300, 1e300)


def test_places_ends_at_ends_and_what_lies_beyond_too() -> None:
    axis = Axis(low=1, high=100, start=0, end=10, is_log=True)
    assert [axis.place(value) for value in (1, 10, 100, 1e9, 0.1)] == pytest.approx([0, 5, 10, 10, 0])


def test_refuses_an_axis_without_extent() -> None:
    with pytest.raises(ValueError, match="no axis from 1 to 1"):
        Axis(low=1, high=1, start=0, end=1)
    with pytest.raises(ValueError, match="no axis from 0 to 1"):
        Axis(low=0, high=1, start=0, end=1, is_log=True)


def test_linear_ticks_are_round_numbers() -> None:
    assert linear_ticks(0.87, 1.62, 4) == [1.0, 1.2, 1.4, 1.6]


def test_logarithmic_ticks_are_powers_and_include_one() -> None:
    assert log_ticks(0.3, 70, 4, base=2) == [1, 4, 16, 64]
    assert log_ticks(0.09, 2000, 5) == [0.1, 1, 10, 100, 1000]
    assert log_ticks(4, 60, 6) == [5, 10, 20, 50]


@given(positive, positive, st.integers(1, 8), st.sampled_from([2, 10]))
def test_ticks_of_ratios_are_few_and_on_the_axis(one: float, other: float, most: int, base: int) -> None:
    axis = ratio_axis((one, other), 0, 100)
    ticks = axis.ticks(most, base)
    assert len(ticks) <= most + 3
    assert all(axis.low * 0.99 <= tick <= axis.high * 1.01 for tick in ticks)


@given(st.lists(st.floats()), st.lists(st.floats()))
def test_an_axis_of_speedups_holds_every_estimate_and_one(estimates: list[float], bounds: list[float]) -> None:
    axis = speedup_axis(estimates, bounds, 10, 20)
    assert axis.low < 1 < axis.high
    assert all(axis.low <= value <= axis.high for value in estimates if 1e-300 <= value <= 1e300)
    assert 2 <= len(axis.ticks(5, base=2)) <= 8


def test_a_far_bound_does_not_squeeze_the_estimates() -> None:
    assert speedup_axis([1.2], [1.1, 1e9], 0, 1).high < 6


@given(
    st.datetimes(timezones=st.just(UTC)),
    st.timedeltas(timedelta(hours=2), timedelta(days=9000 * 365)),
    st.integers(3, 8),
)
def test_ticks_of_time_are_few_and_between_the_ends(low: datetime, span: timedelta, most: int) -> None:
    try:
        high = low + span
    except OverflowError:
        high = datetime.max.replace(tzinfo=UTC)
    if high > low + timedelta(hours=1):
        ticks = time_ticks(low, high, most)
        assert len(ticks) <= most + 2
        assert all(low <= at <= high for at, _ in ticks)


def test_ticks_of_a_day_are_hours_and_of_a_year_months() -> None:
    start = datetime(2026, 11, 1, tzinfo=UTC)
    day = [label for _, label in time_ticks(start, start + timedelta(days=1), 4)]
    assert day == ["1 Nov", "06:00", "12:00", "18:00", "2 Nov"]
    months = [label for _, label in time_ticks(start, start + timedelta(days=300), 4)]
    assert months == ["Jan 2027", "Apr 2027", "Jul 2027"]


def test_less_than_a_minute_is_told_by_its_beginning() -> None:
    start = datetime(2026, 11, 30, 16, 11, 5, tzinfo=UTC)
    assert time_ticks(start, start + timedelta(seconds=30), 4) == [(start, "30 Nov 16:11")]
