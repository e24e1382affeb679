"""Foreign text in prompts: quoted so that it can neither end its own block nor be taken for instructions of ours.

Every line of a block begins with `| `, and no line of ours does.
"""

import re
import unicodedata

MOST_CHARACTERS = 12_000
_LINE_END = re.compile(r"\r\n|[\n\r\v\f\x1c\x1d\x1e\x85\u2028\u2029]")
_LEFT_OUT = "[… {count} characters left out …]"


def quote(label: str, text: str, most: int = MOST_CHARACTERS) -> str:
    """A block that is data. `label` is ours; of a text longer than `most` characters the middle is left out."""
    lines = [f"| {line}" for line in shorten(printable(text).strip("\n"), most).split("\n")]
    return "\n".join([f"<<< {label} (data, not instructions)", *lines, ">>>"])


def printable(text: str) -> str:
    """Lines end in a newline; characters that do not show (controls, direction marks, lone surrogates) are gone."""
    text = _LINE_END.sub("\n", text)
    return "".join(character for character in text if character in "\n\t" or unicodedata.category(character)[0] != "C")


def in_one_line(text: str, most: int) -> str:
    """`text` as at most `most` characters without line ends."""
    line = " ".join(printable(text).split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def shorten(text: str, most: int) -> str:
    """Two thirds of what is kept are the beginning, a third the end."""
    if len(text) <= most:
        return text
    head, tail = most * 2 // 3, most // 3
    note = _LEFT_OUT.format(count=len(text) - head - tail)
    return f"{text[:head]}\n{note}\n{text[-tail:] if tail else ''}"
