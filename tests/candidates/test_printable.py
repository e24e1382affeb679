import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from candidates.printable import printable


@given(st.text())
def test_nothing_is_left_that_a_terminal_would_obey(text):
    for character in printable(text):
        assert character in "\n\t" or unicodedata.category(character) not in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")


@given(st.text(st.characters(categories=("L", "N", "P", "Zs"), codec="ascii")))
def test_plain_text_stays_as_it_is(text):
    assert printable(text) == text


def test_what_was_there_can_be_read():
    assert printable("\x1b]0;title\x07 \x9b2J a\u202eb\r\n\tc\r") == "\\x1b]0;title\\x07 \\x9b2J a\\u202eb\n\tc\\x0d"
    assert printable("größer\tals\n") == "größer\tals\n"
    assert printable("\u202e\ue000\u2028\U000e0fff") == "\\u202e\\ue000\\u2028\\U000e0fff"
