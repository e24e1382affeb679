"""highlight: source code as HTML with classes, in one pass of one expression.

It tells comments, strings, numbers, words of the language and directives apart and no more: a lexer of Pygments takes
30 ms for a kernel of 18 kB and makes ten times its size of it, this takes 1 ms. The colours: static/source.css.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from markupsafe import Markup

from candidates.candidate import LanguageName
from candidates.printable import printable

MOST_CHARACTERS = 64_000
MOST_BYTES = 110_000
"""Of what is made of them."""
MOST_LINES = 4_000
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")

_C_WORDS = """alignas alignof asm auto bool break case catch char class concept const consteval constexpr const_cast
continue decltype default delete do double dynamic_cast else enum explicit extern false float for friend goto half if
inline int int16_t int32_t int64_t int8_t long mutable namespace new noexcept nullptr operator private protected public
register reinterpret_cast requires restrict return short signed sizeof size_t static static_assert static_cast struct
switch template this thread_local throw true try typedef typeid typename uint16_t uint32_t uint64_t uint8_t union
unsigned using virtual void volatile while __device__ __forceinline__ __global__ __host__ __launch_bounds__ __restrict__
__shared__ blockDim blockIdx gridDim threadIdx __attribute__ __nv_bfloat16"""
_PYTHON_WORDS = """False None True and as assert async await break class continue def del elif else except finally for
from global if import in is lambda nonlocal not or pass raise return try while with yield self tl triton torch range"""

_NUMBER = r"(?P<n>\b(?:0[xX][0-9a-fA-F']+|[0-9][0-9'_]*(?:\.[0-9]*)?(?:[eE][+-]?[0-9]+)?)[a-zA-Z]{0,3}\b)"
# What is not closed reaches to the end, so that no start is tried twice.
_C_PARTS = (
    r"(?P<c>//[^\n]*|/\*[\s\S]*?(?:\*/|\Z))",
    r"""(?P<s>R"(?P<d>[^()\\\s"]{0,16})\([\s\S]*?(?:\)(?P=d)"|\Z)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.){1,8}')""",
    r"(?P<p>^[ \t]*#[ \t]*[a-z]+)",
    _NUMBER,
)
_PYTHON_PARTS = (
    r"(?P<c>#[^\n]*)",
    r"""(?P<s>\"{3}[\s\S]*?(?:\"{3}|\Z)|'{3}[\s\S]*?(?:'{3}|\Z)|"(?:[^"\\\n]|\\.)*"?|'(?:[^'\\\n]|\\.)*'?)""",
    r"(?P<p>^[ \t]*@[\w.]+)",
    _NUMBER,
)


def _expression(parts: tuple[str, ...], words: str) -> re.Pattern[str]:
    return re.compile("|".join((*parts, rf"(?P<k>\b(?:{'|'.join(words.split())})\b)")), re.MULTILINE)


_EXPRESSIONS: Mapping[LanguageName, re.Pattern[str]] = {
    LanguageName.CPP: _expression(_C_PARTS, _C_WORDS),
    LanguageName.CUDA: _expression(_C_PARTS, _C_WORDS),
    LanguageName.TRITON: _expression(_PYTHON_PARTS, _PYTHON_WORDS),
}


class Highlighted(NamedTuple):
    html: Markup
    numbers: str
    """Of its lines, a line each."""
    is_whole: bool


@lru_cache(maxsize=64)
def _color(shown: str, language: LanguageName) -> Markup:
    text = shown if shown.isascii() and not _CONTROL.search(shown) else printable(shown)
    # Quotes stay: this stands in no attribute.
    escaped = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    room = MOST_BYTES - len(escaped.encode())

    def span(found: re.Match[str]) -> str:
        nonlocal room
        room -= 24
        return f'<span class="{found.lastgroup}">{found[0]}</span>' if room > 0 else found[0]

    # Markup: the text is escaped above, and the groups' names are literals.
    return Markup(_EXPRESSIONS[language].sub(span, escaped))


def highlight(source: str, language: LanguageName) -> Highlighted:
    """The beginning of a long source."""
    shown = cut_lines(source, MOST_CHARACTERS, MOST_LINES)
    html = _color(shown, language)
    if len(html.encode()) > MOST_BYTES + 1000:  # little but what is escaped
        shown = shown[: MOST_CHARACTERS // 5]
        html = _color(shown, language)
    lines = shown.count("\n") + (not shown.endswith("\n"))
    return Highlighted(html, "\n".join(map(str, range(1, lines + 1))), is_whole=len(shown) == len(source))


def cut_lines(text: str, most_characters: int, most_lines: int) -> str:
    """The beginning of a text, within both bounds."""
    shown = text[:most_characters]
    at = -1
    for _ in range(most_lines):
        at = shown.find("\n", at + 1)
        if at < 0:
            return shown
    return shown[: at + 1]
