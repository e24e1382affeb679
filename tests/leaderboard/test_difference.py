"""Differences of sources: whole, numbered, and in bounded work."""

from hypothesis import given
from hypothesis import strategies as st

from leaderboard.difference import MOST_ROWS, Fold, compare_sources

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "int x;", "}"]), max_size=60).map("\n".join)


@given(TEXTS, TEXTS)
def test_rows_hold_both_texts_in_order_with_their_line_numbers(left, right):
    difference = compare_sources(left, right)
    for side, text in (("left", left), ("right", right)):
        lines, at = text.split("\n"), 0
        if len(lines) > 1 and lines[-1] == "":
            lines.pop()
        for row in difference.rows:
            if isinstance(row, Fold):
                at += row.lines
            elif (shown := getattr(row, side)) is not None:
                assert (shown.number, shown.text) == (at + 1, lines[at])
                at += 1
        assert at == len(lines)


@given(TEXTS, TEXTS)
def test_unchanged_rows_are_equal_and_counts_are_of_the_others(left, right):
    difference = compare_sources(left, right)
    rows = [row for row in difference.rows if not isinstance(row, Fold)]
    assert all(row.left.text == row.right.text for row in rows if row.kind == "same")
    changed = [row for row in rows if row.kind == "changed"]
    assert difference.removed == sum(row.left is not None for row in changed)
    assert difference.added == sum(row.right is not None for row in changed)
    assert not difference.is_cut


def test_lines_that_are_too_much_alike_are_replaced_as_a_whole():
    difference = compare_sources("x\n" + "a\nb\n" * 500, "b\na\n" * 500 + "y\n")
    assert not difference.is_paired
    assert len(difference.rows) <= MOST_ROWS
