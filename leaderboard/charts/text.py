"""Text as charts write it, and the numbers of their axes. Names come from strangers, so each is made harmless first."""

import math
import unicodedata
from collections.abc import Callable

from markupsafe import escape

from leaderboard import wording

LONGEST_TEXT = 12_000
STACKED_MARKS = 2
"""Accents on one letter; more of them would write over the lines above and below."""

FIRST_MARK = "\u0300"
"""Nothing before it is an accent of its own; the sign of a speedup is before it."""

ESCAPED_BYTES = {letter: len(str(escape(letter))) for letter in "&<>'\""}
ASCII_CONTROLS = {code: " " if chr(code).isspace() else "\ufffd" for code in (*range(32), 127)}


def clean_text(text: str) -> str:
    """One line that XML can hold: spaces for breaks, U+FFFD for controls, lone surrogates and turns of direction."""
    text = text[:LONGEST_TEXT]
    if text.isascii():
        # The common case, and faster by far than a look at each character.
        return text.translate(ASCII_CONTROLS)
    if text.isprintable() and max(text) < FIRST_MARK:
        return text
    kept: list[str] = []
    stacked = 0
    for character in text:
        stacked = stacked + 1 if unicodedata.category(character).startswith("M") else 0
        if stacked <= STACKED_MARKS:
            kept.append(" " if character.isspace() else character if character.isprintable() else "\ufffd")
    return "".join(kept)


def text_columns(text: str) -> int:
    """Widths of a letter that the text takes in a monospaced font, at most: other scripts may be twice as wide."""
    return sum(1 if ord(character) < 0x300 or character in "…—▲▼" else 2 for character in text)


def shorten_text(text: str, columns: int) -> str:
    """The text cleaned, cut with … where it is wider than `columns` letters."""
    # No longer a start is looked at than could be shown, so that a long name costs no more than a short one.
    start = text[: 4 * columns + 4]
    cleaned = clean_text(start)
    if len(start) == len(text) and text_columns(cleaned) <= columns:
        return cleaned
    return cut_text(cleaned, columns - 1, text_columns)


def shorten_to_bytes(text: str, most_bytes: int) -> str:
    """The text cleaned, cut with … where its escaped form is longer than `most_bytes`."""
    start = text[: most_bytes + 1]
    cleaned = clean_text(start)
    if len(start) == len(text[:LONGEST_TEXT]) and escaped_bytes(cleaned) <= most_bytes:
        return cleaned
    return cut_text(cleaned, most_bytes - len("…".encode()), letter_bytes)


def cut_text(text: str, room: int, measure: Callable[[str], int]) -> str:
    """The longest start of the text that measures at most `room`, and …."""
    kept: list[str] = []
    for character in text:
        room -= measure(character)
        if room < 0:
            break
        kept.append(character)
    return "".join(kept).rstrip() + "…"


def letter_bytes(letter: str) -> int:
    """What escaped_bytes says of one letter: it is asked of every letter of every name that is cut."""
    return ESCAPED_BYTES.get(letter) or len(letter.encode())


def escaped_bytes(text: str) -> int:
    return len(str(escape(text)).encode())


def format_tick(value: float) -> str:
    digits = f"{value:.3g}" if 1e-3 <= value < 1e5 else f"{value:.0e}"
    return f"{wording.shorten_power(digits)}{wording.TIMES}"


def sign_of_speedup(value: float | None) -> str:
    """▲ faster, ▼ slower, = equal as far as two decimals tell; nothing where there is no number."""
    if value is None or not math.isfinite(value):
        return ""
    return "▲" if round(value, 2) > 1 else "▼" if round(value, 2) < 1 else "="


def format_quantity(value: float | None) -> str:
    """A positive number with the prefix of its thousands: 1.5 G. Space and prefix precede a unit: 1.5 Gflop/s."""
    if value is None or not math.isfinite(value):
        return wording.UNKNOWN
    for size, prefix in ((1e15, "P"), (1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"), (1.0, "")):
        # 999.6 reads 1000 in three digits, which is the next prefix's to write.
        if size * 0.9995 <= value < size * 1e4:
            return f"{value / size:.3g} {prefix}".rstrip() if value < size * 999.5 else f"{value / size:.0f} {prefix}"
    return f"{value:.3g}" if 1e-3 <= value < 1 or value == 0 else wording.shorten_power(f"{value:.0e}")
