"""What a text takes on a page is never more than was made room for."""

from hypothesis import given
from hypothesis import strategies as st
from markupsafe import escape

from candidates.printable import printable
from leaderboard.written_bytes import written_bytes


@given(st.text(st.characters(codec=None, categories=None)))
def test_no_text_is_written_longer_than_is_said(text):
    assert len(str(escape(printable(text))).encode()) <= written_bytes(text)


def test_a_line_of_another_script_takes_what_its_letters_take():
    assert written_bytes("漢字 < é") == len("漢字 &lt; é".encode()) + 1
