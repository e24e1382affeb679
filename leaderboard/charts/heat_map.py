"""Heat map: a speedup for every op and workload, blue where faster, orange where slower, each with its number."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from leaderboard import wording
from leaderboard.charts.axis import usable_ratio
from leaderboard.charts.href import check_href
from leaderboard.charts.svg import (
    LABEL_WIDTH,
    NATURAL,
    NATURAL_BYTES,
    element,
    format_number,
    image,
    label,
    link,
    move,
    note,
    path,
    take_within,
    text,
    title,
)
from leaderboard.charts.text import (
    format_tick,
    shorten_text,
    sign_of_speedup,
    text_columns,
)

CELL_WIDTH = 62.0
CELL_HEIGHT = 24.0
GAP = 2.0
MOST_COLUMNS = 20
"""So many cells with the longest of links are a row that the budget has room for."""

MOST_LETTERS = 18
FLAT_LETTERS = 8
"""Names of columns up to this long are written flat, longer ones aslant."""

SLANT_DEGREES = 35
BYTES_FOR_COLUMNS = 12_000
BYTES_FOR_ROW_NAMES = 8_000
BYTES_FOR_CELL_NAMES = 14_000
STEPS = (1.02, 1.25, 2.0, 4.0)
"""Speedups, and by their inverse slowdowns, from which a cell takes the next deeper colour."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatCell:
    """A pair without a cell is hatched; so is a value that is None, not finite or not above 0, with a dash."""

    row: str
    column: str
    speedup: float | None
    href: str | None = None

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeatMap:
    """Rows and columns stand in the order in which cells name them first."""

    title: str
    row_noun: str = "op"
    column_noun: str = "workload"
    cells: tuple[HeatCell, ...]

    def __post_init__(self) -> None:
        if len({(cell.row, cell.column) for cell in self.cells}) < len(self.cells):
            raise ValueError(f"two cells of {self.title!r:.80} are of one row and column")


def draw_heat_map(heat_map: HeatMap) -> Markup:
    if not heat_map.cells:
        return note(heat_map.title, "No speedups to compare yet.")
    names = list(dict.fromkeys(cell.row for cell in heat_map.cells))
    all_columns = list(dict.fromkeys(cell.column for cell in heat_map.cells))
    columns = all_columns[:MOST_COLUMNS]
    left = LABEL_WIDTH * max(text_columns(shorten_text(name, MOST_LETTERS)) for name in names) + 10
    longest = max(text_columns(shorten_text(name, MOST_LETTERS)) for name in columns)
    is_flat = longest <= FLAT_LETTERS
    reach = 0.0 if is_flat else longest * LABEL_WIDTH
    top = 22.0 if is_flat else reach * math.sin(math.radians(SLANT_DEGREES)) + 20
    # The last name reaches over its cell's right edge by what its middle is not from that edge.
    overhang = max(0.0, reach * math.cos(math.radians(SLANT_DEGREES)) + 12 - CELL_WIDTH / 2)
    rows = take_within(draw_rows(heat_map, names, columns, left, top), NATURAL_BYTES - BYTES_FOR_COLUMNS - 2_000)
    left_out = (
        [wording.count_nouns(len(names) - len(rows), f"more {heat_map.row_noun[:20]}")]
        if len(rows) < len(names)
        else []
    )
    if len(columns) < len(all_columns):
        left_out.append(wording.count_nouns(len(all_columns) - len(columns), f"more {heat_map.column_noun[:20]}"))
    bottom = top + len(rows) * CELL_HEIGHT
    more = [text(0, bottom + 12, f"{', '.join(left_out)} not drawn", "chart-muted")] if left_out else []
    return image(
        name=heat_map.title,
        summary=summarise(heat_map, len(names), len(all_columns)),
        kind=NATURAL,
        width=max(left + len(columns) * CELL_WIDTH + overhang, 260),
        height=bottom + (24 if more else 2),
        pieces=[*draw_column_names(columns, left, top, is_flat), element("g", *rows, class_="chart-cells"), *more],
    )


def draw_column_names(columns: list[str], left: float, top: float, is_flat: bool) -> Iterator[Markup]:
    most_bytes = (BYTES_FOR_COLUMNS - len(columns) * 200) // len(columns)
    for index, name in enumerate(columns):
        x, y = left + (index + 0.5) * CELL_WIDTH, top - 11
        if is_flat:
            written = label(x, y, name, FLAT_LETTERS, "chart-middle")
        else:
            place = f"translate({format_number(x - 8)} {format_number(y)}) rotate(-{SLANT_DEGREES})"
            written = element("g", label(0, 0, name, MOST_LETTERS), transform=place)
        yield element("g", title(name, most_bytes), written)


def draw_rows(heat_map: HeatMap, names: list[str], columns: list[str], left: float, top: float) -> Iterator[Markup]:
    cells = {(cell.row, cell.column): cell for cell in heat_map.cells}
    name_bytes = BYTES_FOR_ROW_NAMES // len(names)
    cell_bytes = min(400, BYTES_FOR_CELL_NAMES // len(cells))
    for index, name in enumerate(names):
        y = top + index * CELL_HEIGHT
        pieces = [
            element("g", title(name, name_bytes), label(0, y + CELL_HEIGHT / 2 - GAP / 2, name, MOST_LETTERS)),
        ]
        for place, column in enumerate(columns):
            cell = cells.get((name, column))
            x = left + place * CELL_WIDTH
            pieces.append(draw_blank(x, y) if cell is None else draw_cell(cell, x, y, cell_bytes))
        yield Markup("").join(pieces)


def draw_blank(x: float, y: float) -> Markup:
    """Hatched by hand, since a pattern would need an id."""
    side = CELL_HEIGHT - GAP
    hatches = "".join(
        f"M{format_number(x + step)} {format_number(y + side)}l{side:.0f} -{side:.0f}" for step in (0, 14, 28, 42)
    )
    return path(hatches, "chart-hatch")


def draw_cell(cell: HeatCell, x: float, y: float, most_bytes: int) -> Markup:
    name = f"{wording.speedup(cell.speedup)} {shorten_text(cell.column, 60)}, {shorten_text(cell.row, 60)}"
    middle = (x + (CELL_WIDTH - GAP) / 2, y + (CELL_HEIGHT - GAP) / 2)
    speedup = usable_ratio(cell.speedup)
    if speedup is None:
        pieces = [draw_blank(x, y), text(*middle, wording.UNKNOWN, "chart-halo")]
    else:
        # Shorter than a rect: most bytes of the map are its cells.
        box = f"{move(x, y)}h{CELL_WIDTH - GAP:.0f}v{CELL_HEIGHT - GAP:.0f}h-{CELL_WIDTH - GAP:.0f}z"
        number = f"{sign_of_speedup(speedup)} {wording.ratio(speedup)}"
        step = heat_step(speedup)
        pieces = [path(box, f"heat-{step}"), text(*middle, number, f"heat-{step}-text")]
    return link(cell.href, name, *pieces, most_bytes=most_bytes)


def heat_step(speedup: float) -> str:
    """even, faster-1 to faster-4, slower-1 to slower-4."""
    distance = max(speedup, 1 / speedup)
    depth = sum(distance >= step for step in STEPS)
    return "even" if depth == 0 else f"faster-{depth}" if speedup > 1 else f"slower-{depth}"


def summarise(heat_map: HeatMap, rows: int, columns: int) -> str:
    found = [speedup for cell in heat_map.cells if (speedup := usable_ratio(cell.speedup)) is not None]
    extent = f", from {wording.speedup(min(found))} to {wording.speedup(max(found))}" if found else ""
    return (
        f"Speedups of {wording.count_nouns(rows, heat_map.row_noun)}"
        f" by {wording.count_nouns(columns, heat_map.column_noun)}{extent};"
        f" {sum(speedup > 1 for speedup in found)} of {len(found)} are above {format_tick(1)}."
    )
