"""Elements, budgets and notes."""

from xml.etree import ElementTree

import pytest
from markupsafe import Markup

from leaderboard.charts.frame import fit_to_page, frame_natural
from leaderboard.charts.marks import Entry, Shape, draw_legend, draw_mark
from leaderboard.charts.svg import Sheet, element, format_number, note, take_within, text, title
from tests.leaderboard.charts.drawings import HOSTILE, check_drawing


@pytest.mark.parametrize("hostile", HOSTILE)
def test_text_and_attributes_are_escaped(hostile: str) -> None:
    drawn = element("g", title(hostile, 500), aria_label=note(hostile, "x").striptags())
    assert {part.tag for part in ElementTree.fromstring(drawn).iter()} <= {"g", "title"}
    check_drawing(note(hostile, "Nothing yet."))


def test_a_coordinate_that_is_no_number_is_refused() -> None:
    for value in (float("nan"), float("inf")):
        with pytest.raises(ValueError, match="no place"):
            format_number(value)


def test_coordinates_are_short() -> None:
    assert [format_number(value) for value in (1.0, 1.26, -0.01, -2.5)] == ["1", "1.3", "0", "-2.5"]


def test_pieces_are_taken_up_to_the_budget_and_not_beyond() -> None:
    assert take_within([Markup("abc"), Markup("é"), Markup("x")], 5) == ["abc", "é"]


def test_every_shape_is_drawn_about_its_middle() -> None:
    assert len({draw_mark(shape, 10, 10, 4, "k") for shape in Shape}) == len(Shape)


def test_a_legend_wraps_where_the_sheet_ends() -> None:
    entries = [Entry(shape=Shape.UP, kind="k", name="promoted") for _ in range(4)]
    assert draw_legend(entries, 0, 0, 1000).height == 18
    assert draw_legend(entries, 0, 0, 200).height == 36


def test_a_page_gets_both_drawings_but_a_note_once() -> None:
    def draw(name: str, sheet: Sheet) -> Markup:
        return element("svg", text(0, 0, name), class_=sheet.kind)

    assert fit_to_page(draw, "a").count("<svg") == 2
    assert fit_to_page(lambda name, sheet: note(name, "None yet."), "a").count("<svg") == 1
    assert 'tabindex="0"' in frame_natural(note("a", "None yet."))
