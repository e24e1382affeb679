"""Marks: the shapes that tell series and states apart where colour cannot, and the legend that names them."""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from leaderboard.charts.svg import element, format_number, move, path, text

TEXT_WIDTH = 6.8
"""Width of a letter of running text: 12 px, on the wide side of the mean."""


class Shape(StrEnum):
    CIRCLE = "circle"
    SQUARE = "square"
    DIAMOND = "diamond"
    UP = "up"
    DOWN = "down"
    CROSS = "cross"
    STAR = "star"


OUTLINES = {
    Shape.SQUARE: ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    Shape.DIAMOND: ((0.0, -1.2), (1.2, 0.0), (0.0, 1.2), (-1.2, 0.0)),
    Shape.UP: ((0.0, -1.1), (1.1, 0.9), (-1.1, 0.9)),
    Shape.DOWN: ((0.0, 1.1), (1.1, -0.9), (-1.1, -0.9)),
    Shape.STAR: (
        *((0.0, -1.5), (0.4, -0.5), (1.45, -0.45), (0.6, 0.2), (0.9, 1.2)),
        *((0.0, 0.6), (-0.9, 1.2), (-0.6, 0.2), (-1.45, -0.45), (-0.4, -0.5)),
    ),
}


def draw_mark(shape: Shape, x: float, y: float, size: float, kind: str | None = None) -> Markup:
    """A shape of about `size` on each side of its middle."""
    if shape is Shape.CIRCLE:
        return element("circle", class_=kind, cx=x, cy=y, r=size)
    if shape is Shape.CROSS:
        there, back = format_number(2 * size), format_number(-2 * size)
        return path(f"{move(x - size, y - size)}l{there} {there}m{back} 0l{there} {back}", kind)
    corners = [f"{format_number(x + dx * size)} {format_number(y + dy * size)}" for dx, dy in OUTLINES[shape]]
    return path(f"M{'L'.join(corners)}Z", kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """A line of a legend."""

    shape: Shape
    kind: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Legend:
    pieces: tuple[Markup, ...]
    height: float


def draw_legend(entries: Iterable[Entry], left: float, top: float, right: float) -> Legend:
    """The entries one after the other, in as many lines as they need."""
    pieces: list[Markup] = []
    x, y = left, top + 9
    for entry in entries:
        width = 18 + len(entry.name) * TEXT_WIDTH + 14
        if x > left and x + width - 14 > right:
            x, y = left, y + 18
        pieces += [draw_mark(entry.shape, x + 5, y, 4, entry.kind), text(x + 15, y, entry.name, "chart-muted")]
        x += width
    return Legend(pieces=tuple(pieces), height=y + 9 - top if pieces else 0)
