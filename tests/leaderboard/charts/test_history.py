"""Histories."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.history import (
    Event,
    History,
    HistoryPoint,
    draw_history,
    follow_best,
    history_table,
    thin_out,
)
from leaderboard.charts.svg import NARROW, WIDE, Sheet
from tests.leaderboard.charts.drawings import HOSTILE, any_float, check_drawing, hostile_text, of_class, texts_of

START = datetime(2026, 11, 1, tzinfo=UTC)
points = st.builds(
    HistoryPoint,
    at=st.one_of(
        st.datetimes(timezones=st.just(UTC)),
        st.integers(0, 10**7).map(lambda second: START + timedelta(seconds=second)),
    ),
    run=hostile_text,
    speedup=any_float,
    low=any_float,
    high=any_float,
    event=st.sampled_from(Event),
)
sheets = pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])


def point(day: float, speedup: float | None, event: Event = Event.MEASURED) -> HistoryPoint:
    return HistoryPoint(at=START + timedelta(days=day), run=f"run {day}", speedup=speedup, event=event)


@sheets
@given(history=st.builds(History, title=hostile_text, points=st.lists(points, max_size=10).map(tuple)))
def test_any_points_make_a_sound_drawing(sheet: Sheet, history: History) -> None:
    check_drawing(draw_history(history, sheet))
    assert len(history_table(history).rows) == len(history.points)


@pytest.mark.parametrize("points", [(), (point(1, None),)])
def test_no_speedups_make_a_sentence(points: tuple[HistoryPoint, ...]) -> None:
    assert texts_of(check_drawing(draw_history(History(title="t", points=points)))) == ["No run has a speedup yet."]


@sheets
@pytest.mark.parametrize("hostile", HOSTILE)
def test_thousands_of_hostile_points_stay_within_the_page(sheet: Sheet, hostile: str) -> None:
    points = tuple(
        HistoryPoint(
            at=START + timedelta(hours=index),
            run=hostile,
            speedup=1 + index / 777,
            low=0.5,
            high=9.0,
            event=list(Event)[index % 3],
        )
        for index in range(3000)
    )
    drawing = draw_history(History(title=hostile, points=points), sheet)
    check_drawing(drawing)
    assert len(drawing.encode()) <= sheet.most_bytes


def test_the_best_never_falls_and_ignores_what_was_retracted() -> None:
    placed = follow_best([point(3, 1.1), point(1, 1.2), point(2, 9.0, Event.RETRACTED), point(4, 1.5)])
    assert [one.best for one in placed] == [1.2, 1.2, 1.2, 1.5]
    assert [one.is_new_best for one in placed] == [True, False, False, True]


def test_thinning_keeps_ends_extremes_and_promotions() -> None:
    points = [point(day, 1.0 + day % 7 / 10) for day in range(1000)]
    points[500] = point(500, 5.0)
    points[600] = point(600, 0.1)
    points[700] = point(700, 1.0, Event.PROMOTED)
    points[800] = point(800, 1.0, Event.RETRACTED)
    kept = [one.point for one in thin_out(follow_best(points), 50)]
    assert len(kept) == 50
    assert all(points[index] in kept for index in (0, 500, 600, 700, 800, 999))
    assert kept == sorted(kept, key=lambda one: one.at)


def test_promotions_and_retractions_have_marks_of_their_own() -> None:
    history = History(title="t", points=(point(1, 1.1), point(2, 1.3, Event.PROMOTED), point(3, 2.0, Event.RETRACTED)))
    root = check_drawing(draw_history(history))
    assert all(of_class(root, f"event-{event}") for event in Event)
    assert {event.value for event in Event} <= set(texts_of(root))


@pytest.mark.parametrize("speedups", [(1.0,), (1.0, 1.0, 1.0), (1e-300, 1e300)])
def test_one_point_equal_ones_and_huge_ones_are_drawn(speedups: tuple[float, ...]) -> None:
    history = History(title="t", points=tuple(point(0, speedup) for speedup in speedups))
    _, marks = of_class(check_drawing(draw_history(history)), "event-measured")
    assert len(marks) == len(speedups)


def test_many_whiskers_are_left_out_but_for_events() -> None:
    runs = [HistoryPoint(at=START + timedelta(days=day), run="r", speedup=1.0, low=0.9, high=1.1) for day in range(200)]
    runs[70] = replace(runs[70], event=Event.PROMOTED)
    for points, whiskers in ((runs[:100], 100), (runs, 1)):
        (drawn,) = of_class(check_drawing(draw_history(History(title="t", points=tuple(points)))), "chart-whisker")
        assert drawn.get("d", "").count("V") == whiskers


def test_times_are_told_in_utc_and_need_a_zone() -> None:
    at = datetime(2026, 11, 1, 1, 30, tzinfo=timezone(timedelta(hours=2)))
    table = history_table(History(title="t", points=(HistoryPoint(at=at, run="r", speedup=1.0),)))
    assert table.rows[0][0] == "2026-10-31 23:30 UTC"
    with pytest.raises(ValueError, match="without a time zone"):
        HistoryPoint(at=datetime(2026, 11, 1), run="r", speedup=1.0)  # noqa: DTZ001 - what is refused
