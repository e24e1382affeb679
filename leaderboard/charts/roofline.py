"""Roofline: what an op reaches, under what the machine could, both axes logarithmic.

After Williams, Waterman and Patterson, "Roofline", CACM 52(4), 2009. Neither axis is fixed: performance over arithmetic
intensity, or, for ops that compute nothing, bandwidth over the bytes of the working set with a roof for each cache.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from leaderboard import wording
from leaderboard.charts.axis import Axis, bound_ratio, ratio_axis, usable_ratio
from leaderboard.charts.href import check_href
from leaderboard.charts.marks import Entry, Shape, draw_legend, draw_mark
from leaderboard.charts.svg import (
    LABEL_WIDTH,
    WIDE,
    Sheet,
    format_number,
    image,
    label,
    link,
    move,
    note,
    path,
    polyline,
    share_of_bytes,
    take_within,
    text,
)
from leaderboard.charts.table import Table
from leaderboard.charts.text import clean_text, format_quantity, shorten_text, text_columns

MOST_ROOFS, MOST_CORNERS = 8, 16
BYTES_BESIDE_POINTS = 9_500
LABEL_HEIGHT = 14.0


class Series(StrEnum):
    """What a point is a measurement of. Later ones are drawn over earlier ones."""

    EAGER = "eager"
    COMPILE = "compile"
    CANDIDATE = "candidate"
    CURRENT = "current"
    BEST = "best"


SHAPES = {
    Series.EAGER: Shape.SQUARE,
    Series.COMPILE: Shape.DIAMOND,
    Series.CANDIDATE: Shape.CIRCLE,
    Series.CURRENT: Shape.UP,
    Series.BEST: Shape.STAR,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """A limit as corners (x, y) from left to right, straight between them in logarithms. All must be above 0."""

    label: str
    points: tuple[tuple[float, float], ...]

    def __post_init__(self) -> None:
        if not 2 <= len(self.points) <= MOST_CORNERS:
            raise ValueError(f"a roof of {len(self.points)} corners, not 2 to {MOST_CORNERS}")
        for x, y in self.points:
            if usable_ratio(x) is None or usable_ratio(y) is None:
                raise ValueError(f"a corner of a roof at ({x}, {y}) has no logarithm")


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A measurement. One whose x or y is None, not finite or not above 0 stands in the table alone."""

    label: str
    series: Series
    x: float | None
    y: float | None
    href: str | None = None

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    title: str
    x_name: str = "arithmetic intensity"
    x_unit: str = "flop/byte"
    y_name: str = "performance"
    y_unit: str = "flop/s"
    roofs: tuple[Roof, ...]
    points: tuple[Point, ...]

    def __post_init__(self) -> None:
        if len(self.roofs) > MOST_ROOFS:
            raise ValueError(f"{len(self.roofs)} roofs, more than {MOST_ROOFS}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    point: Point
    x: float
    y: float


def draw_roofline(roofline: Roofline, sheet: Sheet = WIDE) -> Markup:
    placed = place_points(roofline.points)
    if not placed and not roofline.roofs:
        return note(roofline.title, "No point has a place on this roofline yet.")
    series = sorted({one.point.series for one in placed}, key=list(Series).index)
    legend = draw_legend(
        (Entry(shape=SHAPES[one], kind=f"series-{one}", name=one.value) for one in series), 46, 0, sheet.width
    )
    top, bottom = legend.height + 26, legend.height + (330 if sheet.width >= WIDE.width else 260)
    corners_x = [bound_ratio(x) for roof in roofline.roofs for x, _ in roof.points]
    corners_y = [bound_ratio(y) for roof in roofline.roofs for _, y in roof.points]
    x_axis = ratio_axis([one.x for one in placed] + corners_x, 46, sheet.width - 12)
    y_axis = ratio_axis([one.y for one in placed] + corners_y, bottom, top)
    points = draw_points(roofline, placed, x_axis, y_axis, sheet)
    left_out = len(placed) - len(points)
    more = [text(sheet.width - 12, bottom - 10, f"{left_out} more not drawn", "chart-end chart-muted chart-halo")]
    return image(
        name=roofline.title,
        summary=summarise(roofline, len(placed)),
        kind=sheet.kind,
        width=sheet.width,
        height=bottom + 40,
        pieces=[
            *legend.pieces,
            *draw_axes(roofline, x_axis, y_axis, sheet),
            *draw_roofs(roofline.roofs, x_axis, y_axis, sheet),
            # The last drawn lies on top, and what matters most was taken first.
            *reversed(points),
            *(more if left_out else []),
        ],
    )


def place_points(points: Iterable[Point]) -> list[Placed]:
    """Those that can be drawn; the latest series first, the fastest first within it."""
    placed = [
        Placed(point=point, x=x, y=y)
        for point in points
        if (x := usable_ratio(point.x)) is not None and (y := usable_ratio(point.y)) is not None
    ]
    return sorted(placed, key=lambda one: (-list(Series).index(one.point.series), -one.y))


def draw_points(roofline: Roofline, placed: list[Placed], x_axis: Axis, y_axis: Axis, sheet: Sheet) -> list[Markup]:
    room = sheet.most_bytes - BYTES_BESIDE_POINTS
    most_bytes = share_of_bytes(room, len(placed))
    pieces = (
        link(
            one.point.href,
            f"{one.point.series}: {format_quantity(one.y)}{roofline.y_unit} at {format_quantity(one.x)}"
            f" {roofline.x_unit}, {one.point.label}",
            draw_mark(
                SHAPES[one.point.series],
                x_axis.place(one.x),
                y_axis.place(one.y),
                4.5,
                f"series-{one.point.series}",
            ),
            most_bytes=most_bytes,
        )
        for one in placed
    )
    return take_within(pieces, room)


def draw_axes(roofline: Roofline, x_axis: Axis, y_axis: Axis, sheet: Sheet) -> list[Markup]:
    bottom, top = y_axis.start, y_axis.end
    left, right = format_number(x_axis.start), format_number(x_axis.end)
    pieces: list[Markup] = []
    grid = ""
    for tick in x_axis.ticks(7 if sheet.width >= WIDE.width else 4):
        x = x_axis.place(tick)
        grid += f"{move(x, top)}V{format_number(bottom)}"
        pieces.append(text(x, bottom + 12, format_quantity(tick), "chart-middle chart-muted"))
    for tick in y_axis.ticks(6):
        y = y_axis.place(tick)
        grid += f"{move(x_axis.start, y)}H{right}"
        pieces.append(text(x_axis.start - 6, y, format_quantity(tick), "chart-end chart-muted"))
    columns = int(sheet.width / 8)
    x_title = shorten_text(f"{roofline.x_name} ({roofline.x_unit})", columns)
    y_title = shorten_text(f"{roofline.y_name} ({roofline.y_unit})", columns)
    return [
        path(grid, "chart-grid"),
        path(f"M{left} {format_number(bottom)}H{right}", "chart-axis"),
        *pieces,
        text(0, top - 14, y_title, "chart-muted"),
        text(x_axis.end, bottom + 30, x_title, "chart-end chart-muted"),
    ]


def draw_roofs(roofs: Iterable[Roof], x_axis: Axis, y_axis: Axis, sheet: Sheet) -> Iterable[Markup]:
    """Each with its label over its right end, moved down where another label is."""
    taken: list[tuple[float, float, float]] = []
    columns = int(sheet.width / 26)
    for roof in sorted(roofs, key=lambda roof: -roof.points[-1][1]):
        line = [(x_axis.place(x), y_axis.place(y)) for x, y in roof.points]
        yield polyline(line, "chart-roof")
        end, y = line[-1][0], line[-1][1] - 8
        width = text_columns(shorten_text(roof.label, columns)) * LABEL_WIDTH
        end = max(end, x_axis.start + width)
        for left, right, other_y in sorted(taken, key=lambda place: place[2]):
            if end - width < right and left < end and abs(y - other_y) < LABEL_HEIGHT:
                y = other_y + LABEL_HEIGHT
        y = min(y, y_axis.start - 6)
        taken.append((end - width, end, y))
        yield label(end, y, roof.label, columns, "chart-end chart-halo")


def summarise(roofline: Roofline, placed: int) -> str:
    counts = Counter(point.series for point in roofline.points)
    found = ", ".join(f"{counts[series]} {series}" for series in Series if counts[series])
    missing = len(roofline.points) - placed
    return (
        f"{roofline.y_name} over {roofline.x_name}: {wording.count_nouns(len(roofline.points), 'point')}"
        + (f" ({found})" if found else "")
        + f" under {wording.count_nouns(len(roofline.roofs), 'roof')}"
        + (f"; {missing} without a place." if missing else ".")
    )


def roofline_table(roofline: Roofline) -> Table:
    return Table(
        caption=clean_text(roofline.title),
        columns=(
            "Series",
            "Name",
            clean_text(f"{roofline.x_name} ({roofline.x_unit})"),
            clean_text(f"{roofline.y_name} ({roofline.y_unit})"),
        ),
        rows=tuple(
            (point.series.value, clean_text(point.label), format_quantity(point.x), format_quantity(point.y))
            for point in roofline.points
        ),
    )
