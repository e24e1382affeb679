"""Text and numbers in charts."""

import math
from xml.etree import ElementTree

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from leaderboard import wording
from leaderboard.charts.text import (
    clean_text,
    format_quantity,
    format_tick,
    shorten_text,
    shorten_to_bytes,
    sign_of_speedup,
    text_columns,
)


@given(st.text(alphabet=st.characters()))
def test_cleaned_text_is_one_line_that_xml_holds(text: str) -> None:
    cleaned = clean_text(text)
    assert ElementTree.fromstring(f"<t>{escape(cleaned)}</t>").text == (cleaned or None)
    assert "\n" not in cleaned


def test_cleaned_text_keeps_its_direction_and_its_line() -> None:
    assert clean_text("a\u202eb") == "a\ufffdb"
    assert clean_text("e" + "\u0301" * 100) == "e\u0301\u0301"


@given(st.text(alphabet=st.characters()), st.integers(1, 30))
def test_shortened_text_is_no_wider_than_asked(text: str, columns: int) -> None:
    assert text_columns(shorten_text(text, columns)) <= columns


@given(st.text(alphabet=st.characters()), st.integers(3, 60))
def test_text_shortened_to_bytes_fits_when_escaped(text: str, most_bytes: int) -> None:
    assert len(escape(shorten_to_bytes(text, most_bytes)).encode()) <= most_bytes


def test_tick_labels_stay_short() -> None:
    assert [format_tick(value) for value in (0.25, 1.0, 64.0, 1e65, 1e-9)] == [
        f"{digits}\N{MULTIPLICATION SIGN}" for digits in ("0.25", "1", "64", "1e65", "1e-9")
    ]


def test_short_text_stays_whole() -> None:
    assert shorten_text("rms_norm", 8) == "rms_norm"
    assert shorten_text("rms_norms", 8) == "rms_nor…"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "—"), (math.nan, "—"), (math.inf, "—"), (1.234, "1.23"), (12.34, "12.3"), (123.4, "123"), (1e9, "1.0e9")],
)
def test_ratios_show_three_digits_or_a_dash(value: float | None, shown: str) -> None:
    assert wording.ratio(value) == shown


def test_speedups_say_what_they_are_times_of() -> None:
    assert wording.speedup(1.5) == "1.50\N{MULTIPLICATION SIGN}"
    assert wording.interval((1.0, math.inf)) == "1.00–∞"
    assert wording.interval((None, None)) == "—"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(1.5e9, "1.5 G"), (999.6, "1 k"), (999.4, "999"), (1e15, "1 P"), (0.25, "0.25"), (1e-9, "1e-9"), (None, "—")],
)
def test_quantities_take_the_prefix_of_their_thousands(value: float | None, shown: str) -> None:
    assert format_quantity(value) == shown


@given(st.floats(1, 1e18))
def test_prefixed_quantities_stay_within_a_percent(value: float) -> None:
    number, _, prefix = format_quantity(value).partition(" ")
    size = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}[prefix]
    assert float(number) * size == pytest.approx(value, rel=0.01)


def test_a_sign_agrees_with_the_two_decimals_beside_it() -> None:
    assert [sign_of_speedup(value) for value in (1.004, 1.01, 0.99, None)] == ["=", "▲", "▼", ""]
