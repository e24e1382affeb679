"""Interval bars."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.interval_bars import IntervalBars, IntervalRow, draw_interval_bars
from leaderboard.charts.svg import NARROW, WIDE, Sheet
from tests.leaderboard.charts.drawings import HOSTILE, any_float, check_drawing, hostile_text, of_class, texts_of

rows = st.builds(
    IntervalRow,
    label=hostile_text,
    baseline=hostile_text,
    estimate=any_float,
    low=any_float,
    high=any_float,
    count=st.one_of(st.none(), st.integers(0, 10**9)),
)
sheets = pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])


def one_row(estimate: float | None, low: float | None = None, high: float | None = None) -> IntervalBars:
    return IntervalBars(title="t", rows=(IntervalRow(label="w", estimate=estimate, low=low, high=high),))


@sheets
@given(bars=st.builds(IntervalBars, title=hostile_text, rows=st.lists(rows, max_size=8).map(tuple)))
def test_any_rows_make_a_sound_drawing(sheet: Sheet, bars: IntervalBars) -> None:
    check_drawing(draw_interval_bars(bars, sheet))


def test_no_rows_make_a_sentence() -> None:
    root = check_drawing(draw_interval_bars(IntervalBars(title="t", rows=())))
    assert texts_of(root) == ["Nothing has been measured yet."]


@sheets
@pytest.mark.parametrize("hostile", HOSTILE)
def test_hundreds_of_hostile_rows_stay_within_the_page(sheet: Sheet, hostile: str) -> None:
    row = IntervalRow(label=hostile, baseline=hostile, estimate=1.1, low=1.0, high=1e300, count=10**9)
    drawing = draw_interval_bars(IntervalBars(title=hostile, rows=(row,) * 500), sheet)
    root = check_drawing(drawing)
    assert len(drawing.encode()) <= sheet.most_bytes
    assert any("not drawn" in text for text in texts_of(root))


def test_a_long_label_is_cut_and_whole_in_its_title() -> None:
    label = "x" * 10_000
    root = check_drawing(draw_interval_bars(IntervalBars(title="t", rows=(IntervalRow(label=label, estimate=1.0),))))
    assert not any(label in text for text in texts_of(root))
    assert any(label in text for text in texts_of(root, "title"))


@pytest.mark.parametrize("estimate", [None, math.nan, math.inf, 0.0, -1.0])
def test_what_is_no_speedup_shows_as_a_dash(estimate: float | None) -> None:
    root = check_drawing(draw_interval_bars(one_row(estimate, 0.9, 1.1)))
    assert "—" in texts_of(root)
    assert not of_class(root, "chart-mark")


def test_only_a_whole_interval_on_one_side_counts_as_faster_or_slower() -> None:
    assert of_class(check_drawing(draw_interval_bars(one_row(1.2, 1.1, 1.3))), "chart-faster")
    assert of_class(check_drawing(draw_interval_bars(one_row(0.8, 0.7, 0.9))), "chart-slower")
    for undecided in (one_row(1.2, 0.9, 1.3), one_row(1.2), one_row(1.2, math.nan, math.nan)):
        assert of_class(check_drawing(draw_interval_bars(undecided)), "chart-even")


def test_neighbours_share_their_label() -> None:
    both = tuple(IntervalRow(label="w", baseline=baseline, estimate=1.0) for baseline in ("eager", "compile"))
    root = check_drawing(draw_interval_bars(IntervalBars(title="t", rows=both)))
    assert texts_of(root).count("w") == 1


def test_where_no_row_has_a_count_there_is_no_column_for_it() -> None:
    counted = IntervalBars(title="t", rows=(IntervalRow(label="w", estimate=1.2, low=1.1, high=1.3, count=7),))
    assert {"n", "7"} <= set(texts_of(check_drawing(draw_interval_bars(counted))))
    assert not {"n", "—"} & set(texts_of(check_drawing(draw_interval_bars(one_row(1.2, 1.1, 1.3)))))
