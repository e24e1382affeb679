"""Highlighting: the text stays the text, whatever it is."""

import html
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.candidate import LanguageName
from candidates.printable import printable
from leaderboard.highlight import MOST_BYTES, highlight

CODE = st.lists(
    st.sampled_from(
        ["int ", "/*", "*/", "//", "#", '"', "'", "\\", "\n", "<b>", "&amp;", '"""', 'R"x(', ')x"', "0x1f", "1.5e3f"]
    )
    | st.text(max_size=3),
    max_size=40,
).map("".join)


@given(CODE, st.sampled_from(LanguageName))
def test_without_its_markup_it_is_the_printable_source(code, language):
    shown = highlight(code, language)
    assert html.unescape(re.sub(r'</?span(?: class="[a-z]")?>', "", shown.html)) == printable(code)
    assert shown.is_whole


@pytest.mark.parametrize(
    ("language", "code", "spans"),
    [
        ("cpp", "#pragma omp\nint x = 0x1f; // done", ["p#pragma", "kint", "n0x1f", "c// done"]),
        ("cpp", "/* int\n*/ f('a', \"int // no\")", ["c/* int\n*/", "s'a'", 's"int // no"']),
        ("cuda", 'R"a(int)" )a" __global__', ['sR"a(int)" )a"', "k__global__"]),
        ("triton", "@triton.jit\ndef f(): # if\n    '''def\n'''", ["p@triton.jit", "kdef", "c# if", "s'''def\n'''"]),
        ("cpp", "printer integer a1 _int int_", []),
    ],
)
def test_tells_parts_of_a_language_apart(language, code, spans):
    shown = html.unescape(highlight(code, LanguageName(language)).html)
    assert ["".join(span) for span in re.findall(r'<span class="(.)">([\s\S]*?)</span>', shown)] == spans


@pytest.mark.parametrize("unit", ['"', "<", "int ", "/*", 'R"(', "'\\", "1'", "\u202e", "\n", "漢"])
@pytest.mark.parametrize("language", LanguageName)
def test_is_bounded(unit, language):
    shown = highlight(unit * 500_000, language)
    assert len(shown.html.encode()) + len(shown.numbers) <= MOST_BYTES + 20_000
    assert not shown.is_whole


def test_numbers_every_line_once():
    assert highlight("a\nb\n", LanguageName.CPP).numbers == "1\n2"
    assert highlight("a\nb", LanguageName.CPP).numbers == "1\n2"
