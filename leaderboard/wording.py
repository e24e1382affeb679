"""How figures and times read on a page: one way each, with `—` for what is not known."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime

UNKNOWN = "—"
TIMES = "×"
_ID_CHARACTERS = 12


def ratio(value: float | None) -> str:
    """`2.77`, `12.3`, `123`: three digits or so."""
    if value is None or not math.isfinite(value):
        return UNKNOWN
    size = abs(value)
    if size >= 100_000 or 0 < size < 0.005:
        return shorten_power(f"{value:.1e}")
    return f"{value:.0f}" if size >= 100 else f"{value:.1f}" if size >= 10 else f"{value:.2f}"


def shorten_power(number: str) -> str:
    """1e9 for what Python writes 1e+09."""
    return number.replace("e+0", "e").replace("e+", "e").replace("e-0", "e-")


def speedup(value: float | None) -> str:
    """`2.77×`."""
    text = ratio(value)
    return text if text == UNKNOWN else f"{text}{TIMES}"


def interval(low_high: Sequence[float | None] | None) -> str:
    """`2.61–2.90`."""
    if low_high is None or all(bound is None for bound in low_high):
        return UNKNOWN
    return "–".join("∞" if bound == math.inf else ratio(bound) for bound in low_high)


def share(value: float | None) -> str:
    """`47 %`, `0.3 %`."""
    if value is None:
        return UNKNOWN
    percent = 100 * value
    return f"{percent:.1f} %" if percent < 9.95 else f"{percent:.0f} %"


def usd(value: float | None) -> str:
    return UNKNOWN if value is None else f"${value:,.2f}"


def count(value: float | None) -> str:
    """`12,345`, to the whole."""
    return UNKNOWN if value is None else f"{round(value):,}"


def count_nouns(number: int, noun: str) -> str:
    """`1 thread`, `8 threads`, `2 processes`; a noun that ends in one s is of many already."""
    ending = "" if number == 1 else "es" if noun.endswith("ss") else "" if noun.endswith("s") else "s"
    return f"{number} {noun}{ending}"


def microseconds(value: float | None) -> str:
    """`12.3 µs`, `1.25 ms`."""
    if value is None:
        return UNKNOWN
    return f"{value:.3g} µs" if value < 1e3 else f"{value / 1e3:.3g} ms" if value < 1e6 else f"{value / 1e6:.3g} s"


def seconds(value: float | None) -> str:
    """`8 s`, `11 min`, `3.2 h`."""
    if value is None:
        return UNKNOWN
    return f"{value:.0f} s" if value < 90 else f"{value / 60:.0f} min" if value < 5400 else f"{value / 3600:.1f} h"


def size(value: float | None) -> str:
    """`2.1 MB`."""
    if value is None:
        return UNKNOWN
    for unit, bytes_of in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if value >= bytes_of:
            return f"{value / bytes_of:.3g} {unit}"
    return f"{value:.0f} B"


def age(moment: datetime, now: datetime | None = None) -> str:
    """`3 h`, `2 d`; the exact time belongs beside it."""
    passed = ((now or datetime.now(UTC)) - moment).total_seconds()
    if passed < 90:
        return "now"
    for unit, length, most in (("min", 60.0, 3600.0), ("h", 3600.0, 48 * 3600.0)):
        if passed < most:
            return f"{passed / length:.0f} {unit}"
    return f"{passed / 86400:.0f} d"


def moment(value: datetime) -> str:
    """`2026-11-30 16:10 UTC`."""
    return f"{value.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def cut(text: str, most: int) -> str:
    """No longer than `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def short(identifier: str | None) -> str:
    """The first characters of an id."""
    return UNKNOWN if not identifier else identifier[:_ID_CHARACTERS]
