"""SVG written so that no text in it can become markup: every element of every chart is made here.

No scripts, no style attributes and no ids: the pages' content-security policy forbids the first two, and ids of several
charts on one page would clash.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from markupsafe import Markup, escape

from leaderboard.charts.text import shorten_text, shorten_to_bytes

LABEL_WIDTH = 7.3
"""Width of a letter of a label: 12 px monospaced, rounded up."""

SUMMARY_BYTES = 1_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Sheet:
    """What a chart is drawn for: its width in CSS pixels, the class that bounds it, and the bytes it may take."""

    width: float
    kind: str
    most_bytes: int


WIDE = Sheet(width=720, kind="chart-wide", most_bytes=38_000)
NARROW = Sheet(width=344, kind="chart-narrow", most_bytes=20_000)
NATURAL = "chart-natural"
NATURAL_BYTES = 56_000
"""For a chart drawn once, at its own width."""


def format_number(value: float) -> str:
    text = f"{value:.1f}".removesuffix(".0")
    if not text.lstrip("-").replace(".", "").isdigit():
        raise ValueError(f"no place in a chart: {value}")
    return "0" if text == "-0" else text


def element(name: str, *children: Markup, **attributes: str | float | None) -> Markup:
    """`class_` is written class and `aria_label` aria-label; an attribute that is None is left out."""
    written = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(value if isinstance(value, str) else format_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    content = "".join(children)
    # Markup: attribute values are escaped above, children are Markup, names are literals of this package.
    return Markup(f"<{name}{written}>{content}</{name}>" if content else f"<{name}{written}/>")


def title(text: str, most_bytes: int) -> Markup:
    """What hovering shows; nothing where there is no room for a word."""
    return element("title", escape(shorten_to_bytes(text, most_bytes))) if most_bytes >= 16 else Markup("")


def text(x: float, y: float, content: str, kind: str | None = None, **attributes: str | float | None) -> Markup:
    """Text whose middle of the line is at y. A kind names its classes: chart-end aligns it right, and so on."""
    # dy: the attribute dominant-baseline would do, were it not drawn differently by each browser.
    return element("text", escape(content), class_=kind, x=x, y=y, dy=".35em", **attributes)


def label(x: float, y: float, content: str, columns: int, kind: str = "") -> Markup:
    return text(x, y, shorten_text(content, columns), f"chart-label {kind}".strip())


def path(steps: str, kind: str | None = None) -> Markup:
    return element("path", class_=kind, d=steps)


def move(x: float, y: float) -> str:
    return f"M{format_number(x)} {format_number(y)}"


def polyline(points: Iterable[tuple[float, float]], kind: str) -> Markup:
    return path("M" + "L".join(f"{format_number(x)} {format_number(y)}" for x, y in points), kind)


def link(href: str | None, name: str, *children: Markup, most_bytes: int) -> Markup:
    """The children as a link called `name`, which keyboards reach; as a group that shows it, where href is None."""
    if href is None:
        return element("g", title(name, most_bytes), *children)
    # Without a word a link still needs a name; 16 bytes are the least that is worth writing.
    return element("a", *children, href=href, aria_label=shorten_to_bytes(name, max(16, most_bytes)))


def image(*, name: str, summary: str, kind: str, width: float, height: float, pieces: Iterable[Markup]) -> Markup:
    """The chart, which of the kind NATURAL keeps its own size. One with links is a group and no img: assistive
    technology shows nothing that lies within an img."""
    content = Markup("").join(pieces)
    is_natural = kind == NATURAL
    return element(
        "svg",
        title(name, SUMMARY_BYTES),
        element("desc", escape(shorten_to_bytes(summary, SUMMARY_BYTES))),
        content,
        xmlns="http://www.w3.org/2000/svg",
        class_=f"chart {kind}",
        role="group" if "<a " in content else "img",
        viewBox=f"0 0 {format_number(width)} {format_number(height)}",
        width=width if is_natural else None,
        height=height if is_natural else None,
    )


def note(name: str, sentence: str) -> Markup:
    """What stands in a chart's place when there is nothing to draw."""
    return image(
        name=name,
        summary=sentence,
        kind="chart-note",
        width=NARROW.width,
        height=40,
        pieces=[text(0, 20, sentence, "chart-muted")],
    )


def take_within(pieces: Iterable[Markup], most_bytes: int) -> list[Markup]:
    """The first pieces, until the next would make them longer than `most_bytes` together."""
    taken: list[Markup] = []
    for piece in pieces:
        most_bytes -= len(piece.encode())
        if most_bytes < 0:
            break
        taken.append(piece)
    return taken


def share_of_bytes(most_bytes: int, count: int) -> int:
    """What each of `count` names may take where three fifths of a chart are for names."""
    return min(12_000, most_bytes * 3 // 5 // max(1, count))
