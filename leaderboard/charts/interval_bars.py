"""Interval bars: speedups with their intervals, a row each, around the line where nothing is gained or lost."""

import math
from collections.abc import Iterator
from dataclasses import dataclass

from markupsafe import Markup

from leaderboard import wording
from leaderboard.charts.axis import Axis, speedup_axis, usable_ratio
from leaderboard.charts.marks import Shape, draw_mark
from leaderboard.charts.svg import (
    LABEL_WIDTH,
    WIDE,
    Sheet,
    element,
    format_number,
    image,
    label,
    move,
    note,
    path,
    share_of_bytes,
    take_within,
    text,
    title,
)
from leaderboard.charts.text import (
    format_quantity,
    format_tick,
)

ROW_HEIGHT, HEADING_HEIGHT, AXIS_HEIGHT = 20.0, 20.0, 26.0
BYTES_BESIDE_ROWS = 6_000
WIDEST_INTERVAL = 14
"""Letters; a wider interval would reach into the plot and is left to the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalRow:
    """A speedup of `label`, a workload say, over `baseline`. Whatever is not known, infinite or NaN shows as a dash."""

    label: str
    baseline: str = ""
    estimate: float | None
    low: float | None = None
    high: float | None = None
    count: int | None = None
    """Pairs measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IntervalBars:
    """Neighbouring rows of one label share it: keep them together."""

    title: str
    rows: tuple[IntervalRow, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """Left edges, and right edges of what is aligned right, of the columns of a sheet."""

    baseline: float
    plot_start: float
    plot_end: float
    value_end: float
    interval_end: float | None
    count_end: float | None
    """None: no row has a count."""
    label_columns: int
    baseline_columns: int
    has_headings: bool
    """Labels stand on lines of their own, as there is no room beside the plot."""


def lay_out(bars: IntervalBars, sheet: Sheet) -> Layout:
    has_baselines = any(row.baseline for row in bars.rows)
    count_end = sheet.width - 2 if any(row.count is not None for row in bars.rows) else None
    if sheet.width < WIDE.width:
        return Layout(
            baseline=0,
            plot_start=86 if has_baselines else 8,
            plot_end=sheet.width - 100,
            value_end=sheet.width - 38,
            interval_end=None,
            count_end=count_end,
            label_columns=int(sheet.width / LABEL_WIDTH),
            baseline_columns=10,
            has_headings=True,
        )
    return Layout(
        baseline=208,
        plot_start=296 if has_baselines else 208,
        plot_end=sheet.width - 220,
        value_end=sheet.width - 150,
        interval_end=sheet.width - 48,
        count_end=count_end,
        label_columns=27,
        baseline_columns=11,
        has_headings=False,
    )


def draw_interval_bars(bars: IntervalBars, sheet: Sheet = WIDE) -> Markup:
    if not bars.rows:
        return note(bars.title, "Nothing has been measured yet.")
    layout = lay_out(bars, sheet)
    axis = speedup_axis(
        [row.estimate for row in bars.rows],
        [bound for row in bars.rows if usable_ratio(row.estimate) for bound in (row.low, row.high)],
        layout.plot_start,
        layout.plot_end,
    )
    rows = list(draw_rows(bars, layout, axis, sheet))
    drawn = take_within((row.piece for row in rows), sheet.most_bytes - BYTES_BESIDE_ROWS)
    bottom = rows[len(drawn) - 1].bottom if drawn else AXIS_HEIGHT
    left_out = len(rows) - len(drawn)
    more = [text(0, bottom + 12, f"{wording.count_nouns(left_out, 'more row')} not drawn", "chart-muted")]
    return image(
        name=bars.title,
        summary=summarise(bars),
        kind=sheet.kind,
        width=sheet.width,
        height=bottom + (24 if left_out else 4),
        pieces=[*draw_axis(axis, layout, bottom), *drawn, *(more if left_out else [])],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class DrawnRow:
    piece: Markup
    bottom: float


def draw_rows(bars: IntervalBars, layout: Layout, axis: Axis, sheet: Sheet) -> Iterator[DrawnRow]:
    most_bytes = share_of_bytes(sheet.most_bytes - BYTES_BESIDE_ROWS, len(bars.rows))
    bottom = AXIS_HEIGHT
    before: str | None = None
    for row in bars.rows:
        pieces: list[Markup] = []
        if row.label != before:
            if layout.has_headings:
                bottom += HEADING_HEIGHT
            elif before is not None:
                bottom += 4
                pieces.append(path(f"M0 {format_number(bottom - 2)}H{format_number(sheet.width)}", "chart-rule"))
            label_y = bottom + ROW_HEIGHT / 2 - (HEADING_HEIGHT - 2 if layout.has_headings else 0)
            pieces.append(label(0, label_y, row.label, layout.label_columns, "chart-halo"))
        before = row.label
        pieces += draw_row(row, layout, axis, bottom + ROW_HEIGHT / 2)
        bottom += ROW_HEIGHT
        yield DrawnRow(piece=element("g", title(describe_row(row), most_bytes), *pieces), bottom=bottom)


def draw_row(row: IntervalRow, layout: Layout, axis: Axis, y: float) -> list[Markup]:
    pieces = [label(layout.baseline, y, row.baseline, layout.baseline_columns, "chart-muted")] if row.baseline else []
    estimate = usable_ratio(row.estimate)
    if estimate is not None:
        kind, shape = judge_row(row)
        whisker = draw_whisker(row, axis, y)
        pieces += [path(whisker, f"chart-whisker {kind}")] if whisker else []
        pieces.append(draw_mark(shape, axis.place(estimate), y, 5, f"chart-mark {kind}"))
    shown = wording.speedup(row.estimate) if estimate is not None else wording.UNKNOWN
    pieces.append(text(layout.value_end, y, shown, "chart-end chart-number"))
    interval = wording.interval((row.low, row.high))
    if layout.interval_end is not None and estimate is not None and 1 < len(interval) <= WIDEST_INTERVAL:
        pieces.append(text(layout.interval_end, y, interval, "chart-end chart-muted"))
    if layout.count_end is not None:
        count = str(row.count) if row.count is not None and row.count < 10_000 else format_quantity(row.count)
        pieces.append(text(layout.count_end, y, count.replace(" ", ""), "chart-end chart-muted"))
    return pieces


def judge_row(row: IntervalRow) -> tuple[str, Shape]:
    """Faster or slower only where the whole interval is; a row without one is undecided."""
    if row.low is not None and row.low > 1:
        return "chart-faster", Shape.UP
    if row.high is not None and row.high < 1:
        return "chart-slower", Shape.DOWN
    return "chart-even", Shape.CIRCLE


def draw_whisker(row: IntervalRow, axis: Axis, y: float) -> str:
    """The interval with a stop at an end that is on the axis, and an arrow at one that lies beyond."""
    steps = ""
    low = 0.0 if row.low is not None and row.low <= 0 else row.low
    for bound, edge, outward in ((low, axis.low, -1), (row.high, axis.high, 1)):
        if bound is None or math.isnan(bound):
            continue
        steps += f"{move(axis.place(usable_ratio(row.estimate) or 1.0), y)}H{format_number(axis.place(bound))}"
        if (bound - edge) * outward > 0:
            steps += f"m{-3 * outward} -3l{3 * outward} 3l{-3 * outward} 3"
        else:
            steps += "m0 -3v6"
    return steps


def draw_axis(axis: Axis, layout: Layout, bottom: float) -> list[Markup]:
    one = axis.place(1.0)
    top = AXIS_HEIGHT - 6
    pieces = [] if layout.count_end is None else [text(layout.count_end, 10, "n", "chart-end chart-muted")]
    if layout.interval_end is not None:
        pieces.append(text(layout.interval_end, 10, "interval", "chart-end chart-muted"))
    grid = ""
    for tick in sorted({1.0, *axis.speedup_ticks(3 if layout.has_headings else 5)}):
        x = axis.place(tick)
        grid += f"{move(x, top)}V{format_number(bottom)}"
        if tick == 1 or abs(x - one) > 34:
            pieces.append(text(x, 10, format_tick(tick), "chart-middle chart-muted"))
    return [path(grid, "chart-grid"), path(f"{move(one, top)}V{format_number(bottom)}", "chart-reference"), *pieces]


def describe_row(row: IntervalRow) -> str:
    over = f" over {row.baseline}" if row.baseline else ""
    interval = "" if row.low is None and row.high is None else f" {wording.interval((row.low, row.high))}"
    count = "" if row.count is None else f", n = {row.count}"
    return f"{wording.speedup(row.estimate)}{interval}{over}{count}: {row.label}"


def summarise(bars: IntervalBars) -> str:
    measured = [row for row in bars.rows if usable_ratio(row.estimate) is not None]
    kinds = [judge_row(row)[0] for row in measured]
    faster, slower = kinds.count("chart-faster"), kinds.count("chart-slower")
    dashes = len(bars.rows) - len(measured)
    return (
        f"Of {wording.count_nouns(len(bars.rows), 'speedup')}, {faster} are faster than {format_tick(1)} in their whole"
        f" interval, {slower} slower, {len(measured) - faster - slower} undecided"
        + (f" and {dashes} without an estimate." if dashes else ".")
    )
