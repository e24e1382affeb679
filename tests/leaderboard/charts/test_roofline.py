"""Rooflines."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leaderboard.charts.roofline import Point, Roof, Roofline, Series, draw_roofline, roofline_table
from leaderboard.charts.svg import NARROW, WIDE, Sheet
from tests.leaderboard.charts.drawings import HOSTILE, any_float, check_drawing, hostile_text, of_class, texts_of

positive = st.floats(1e-320, 1e308, exclude_min=True)
roofs = st.builds(
    Roof, label=hostile_text, points=st.lists(st.tuples(positive, positive), min_size=2, max_size=5).map(tuple)
)
points = st.builds(
    Point,
    label=hostile_text,
    series=st.sampled_from(Series),
    x=any_float,
    y=any_float,
    href=st.sampled_from([None, "/candidates/a"]),
)
ROOF = Roof(label="float32", points=((0.1, 1e10), (10, 1e12), (1000, 1e12)))
sheets = pytest.mark.parametrize("sheet", [WIDE, NARROW], ids=["wide", "narrow"])


@sheets
@given(
    roofline=st.builds(
        Roofline,
        title=hostile_text,
        x_name=hostile_text,
        y_unit=hostile_text,
        roofs=st.lists(roofs, max_size=8).map(tuple),
        points=st.lists(points, max_size=8).map(tuple),
    )
)
def test_any_roofs_and_points_make_a_sound_drawing(sheet: Sheet, roofline: Roofline) -> None:
    check_drawing(draw_roofline(roofline, sheet))
    assert len(roofline_table(roofline).rows) == len(roofline.points)


def test_nothing_to_place_makes_a_sentence() -> None:
    point = Point(label="copy", series=Series.EAGER, x=0.0, y=1e9)
    root = check_drawing(draw_roofline(Roofline(title="t", roofs=(), points=(point,))))
    assert texts_of(root) == ["No point has a place on this roofline yet."]
    assert roofline_table(Roofline(title="t", roofs=(), points=(point,))).rows == (("eager", "copy", "0", "1 G"),)


@sheets
@pytest.mark.parametrize("hostile", HOSTILE)
def test_many_hostile_points_stay_within_the_page(sheet: Sheet, hostile: str) -> None:
    points = tuple(
        Point(label=hostile, series=series, x=1 + index, y=1e9 * index + 1, href="/" + "a" * 199)
        for index in range(100)
        for series in Series
    )
    roofs = (Roof(label=hostile, points=((1.0, 1.0),) * 16),) * 8
    drawing = draw_roofline(
        Roofline(title=hostile, x_name=hostile, x_unit=hostile, y_name=hostile, roofs=roofs, points=points), sheet
    )
    root = check_drawing(drawing)
    assert len(drawing.encode()) <= sheet.most_bytes
    assert any("more not drawn" in text for text in texts_of(root))
    assert of_class(root, "series-best")


def test_series_differ_in_shape_and_stand_in_the_legend() -> None:
    points = tuple(Point(label="op", series=series, x=1.0, y=1e11) for series in Series)
    root = check_drawing(draw_roofline(Roofline(title="t", roofs=(ROOF,), points=points)))
    assert {series.value for series in Series} <= set(texts_of(root))
    shapes = {
        (mark.tag, mark.get("d", "").count("L")) for series in Series for mark in of_class(root, f"series-{series}")
    }
    assert len(shapes) >= 4


def test_one_point_without_roofs_is_drawn() -> None:
    point = Point(label="op", series=Series.BEST, x=5.0, y=5.0)
    assert of_class(check_drawing(draw_roofline(Roofline(title="t", roofs=(), points=(point,)))), "series-best")


def test_bandwidth_over_working_set_names_its_axes() -> None:
    roofline = Roofline(
        title="t",
        x_name="working set",
        x_unit="byte",
        y_name="bandwidth",
        y_unit="byte/s",
        roofs=(Roof(label="L2", points=((1e3, 1e11), (1e6, 1e11))),),
        points=(),
    )
    written = texts_of(check_drawing(draw_roofline(roofline)))
    assert {"working set (byte)", "bandwidth (byte/s)", "L2"} <= set(written)


def test_labels_of_equal_roofs_do_not_lie_on_each_other() -> None:
    roofs = tuple(Roof(label=name, points=ROOF.points) for name in ("one", "two", "three"))
    root = check_drawing(draw_roofline(Roofline(title="t", roofs=roofs, points=())))
    heights = [float(part.get("y", 0)) for part in root.iter() if part.text in {"one", "two", "three"}]
    assert min(abs(one - other) for one in heights for other in heights if one is not other) >= 10


def test_refuses_roofs_that_have_no_logarithm_or_no_end() -> None:
    with pytest.raises(ValueError, match="no logarithm"):
        Roof(label="r", points=((0.0, 1.0), (1.0, 1.0)))
    with pytest.raises(ValueError, match="no logarithm"):
        Roof(label="r", points=((1.0, math.nan), (1.0, 1.0)))
    with pytest.raises(ValueError, match="a roof of 1 corners"):
        Roof(label="r", points=((1.0, 1.0),))
    with pytest.raises(ValueError, match="9 roofs"):
        Roofline(title="t", roofs=(ROOF,) * 9, points=())
