"""History: the best speedup of an op over time, with every run, promotion and retraction that led to it."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum

from markupsafe import Markup

from leaderboard import wording
from leaderboard.charts.axis import Axis, speedup_axis, time_ticks, usable_ratio
from leaderboard.charts.marks import Entry, Shape, draw_legend, draw_mark
from leaderboard.charts.svg import (
    WIDE,
    Sheet,
    element,
    format_number,
    image,
    move,
    note,
    path,
    share_of_bytes,
    text,
    title,
)
from leaderboard.charts.table import Table
from leaderboard.charts.text import clean_text, format_tick

MOST_POINTS = 400
MOST_WHISKERS = 120
BYTES_OF_POINT = 75
"""Its mark, its whisker and its step of the line, without its name."""

BYTES_BESIDE_POINTS = 4_500


class Event(StrEnum):
    """What became of the run's best candidate. A retracted one had won by a flaw, so it is never the best."""

    MEASURED = "measured"
    PROMOTED = "promoted"
    RETRACTED = "retracted"


SHAPES = {Event.MEASURED: Shape.CIRCLE, Event.PROMOTED: Shape.UP, Event.RETRACTED: Shape.CROSS}
SIZES = {Event.MEASURED: 2.5, Event.PROMOTED: 5.0, Event.RETRACTED: 4.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryPoint:
    """A run's best speedup. One without an estimate above 0 stands in the table alone."""

    at: datetime
    run: str
    speedup: float | None
    low: float | None = None
    high: float | None = None
    event: Event = Event.MEASURED

    def __post_init__(self) -> None:
        if self.at.tzinfo is None:
            raise ValueError(f"a time without a time zone: {self.at}")


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """Points in any order."""

    title: str
    points: tuple[HistoryPoint, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """A point that can be drawn, and the best that was known when it was measured."""

    point: HistoryPoint
    speedup: float
    best: float | None
    is_new_best: bool


def draw_history(history: History, sheet: Sheet = WIDE) -> Markup:
    placed = follow_best(history.points)
    if not placed:
        return note(history.title, "No run has a speedup yet.")
    thinned = thin_out(placed, min(MOST_POINTS, (sheet.most_bytes - BYTES_BESIDE_POINTS) // BYTES_OF_POINT))
    events = [event for event in Event if any(one.point.event is event for one in thinned)]
    legend = draw_legend(
        (Entry(shape=SHAPES[event], kind=f"event-{event}", name=event.value) for event in events), 40, 0, sheet.width
    )
    top, bottom = legend.height + 12, legend.height + 212
    first, last = placed[0].point.at, placed[-1].point.at
    times = Axis(
        low=first.timestamp() - (0 if first < last else 3600),
        high=last.timestamp() + (0 if first < last else 3600),
        start=50,
        end=sheet.width - 14,
    )
    bounds = [bound for one in placed for bound in (one.point.low, one.point.high)]
    speedups = speedup_axis([one.speedup for one in placed], bounds, bottom, top)
    return image(
        name=history.title,
        summary=summarise(history, placed),
        kind=sheet.kind,
        width=sheet.width,
        height=bottom + 24,
        pieces=[
            *legend.pieces,
            *draw_axes(times, speedups, sheet),
            path(draw_whiskers(thinned, times, speedups), "chart-whisker chart-faint"),
            path(draw_steps(thinned, times, speedups), "chart-best"),
            *draw_points(thinned, times, speedups, sheet),
        ],
    )


def follow_best(points: Iterable[HistoryPoint]) -> list[Placed]:
    """The points that can be drawn in order of time, each with the best up to and with it."""
    placed: list[Placed] = []
    best: float | None = None
    for point in sorted(points, key=lambda point: point.at):
        speedup = usable_ratio(point.speedup)
        if speedup is None:
            continue
        is_new_best = point.event is not Event.RETRACTED and (best is None or speedup > best)
        best = speedup if is_new_best else best
        placed.append(Placed(point=point, speedup=speedup, best=best, is_new_best=is_new_best))
    return placed


def thin_out(placed: list[Placed], most: int) -> list[Placed]:
    """At most so many: the ends, promotions, retractions and new bests first, the fastest and slowest, then evenly."""
    if len(placed) <= most:
        return placed
    slowest = min(range(len(placed)), key=lambda index: placed[index].speedup)
    fastest = max(range(len(placed)), key=lambda index: placed[index].speedup)
    # The last of the bests is worth more than the first, and a promotion more than either.
    bests = [index for index in reversed(range(len(placed))) if placed[index].is_new_best]
    events = [index for index, one in enumerate(placed) if one.point.event is not Event.MEASURED]
    evenly = [index * len(placed) // most for index in range(most)]
    kept = list(dict.fromkeys([0, len(placed) - 1, fastest, slowest, *events, *bests, *evenly]))[:most]
    return [placed[index] for index in sorted(kept)]


def draw_axes(times: Axis, speedups: Axis, sheet: Sheet) -> list[Markup]:
    right = format_number(times.end)
    grid = ""
    pieces: list[Markup] = []
    one = speedups.place(1.0)
    for tick in speedups.speedup_ticks(5):
        y = speedups.place(tick)
        grid += f"{move(times.start, y)}H{right}"
        if tick == 1 or abs(y - one) > 14:
            pieces.append(text(times.start - 6, y, format_tick(tick), "chart-end chart-muted"))
    for at, written in time_ticks(
        datetime_at(times.low), datetime_at(times.high), 8 if sheet.width >= WIDE.width else 4
    ):
        x = times.place(at.timestamp())
        grid += f"{move(x, speedups.start)}v4"
        if x < times.end - 12:
            pieces.append(text(x, speedups.start + 14, written, "chart-middle chart-muted"))
    reference = path(f"{move(times.start, one)}H{right}", "chart-reference")
    return [path(grid, "chart-grid"), reference, *pieces]


def datetime_at(seconds: float) -> datetime:
    """As fromtimestamp, for every year that a datetime can be of; the first or the last moment for those beyond."""
    try:
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=seconds)
    except OverflowError:
        return datetime.min.replace(tzinfo=UTC) if seconds < 0 else datetime.max.replace(tzinfo=UTC)


def draw_whiskers(placed: list[Placed], times: Axis, speedups: Axis) -> str:
    """Of the runs with an event alone where whiskers of all would be a hatching."""
    steps = ""
    are_few = len(placed) <= MOST_WHISKERS
    for one in placed:
        if not are_few and one.point.event is Event.MEASURED:
            continue
        low, high = usable_ratio(one.point.low), usable_ratio(one.point.high)
        if low is not None and high is not None:
            steps += f"{move(times.place(one.point.at.timestamp()), speedups.place(low))}V"
            steps += format_number(speedups.place(high))
    return steps or "M0 0"


def draw_steps(placed: list[Placed], times: Axis, speedups: Axis) -> str:
    """The best known, level until the next; it starts with the first and goes on to the right end."""
    steps = ""
    for one in placed:
        if one.is_new_best:
            x, y = times.place(one.point.at.timestamp()), speedups.place(one.speedup)
            steps += f"H{format_number(x)}V{format_number(y)}" if steps else move(x, y)
    return f"{steps}H{format_number(times.end)}" if steps else "M0 0"


def draw_points(placed: list[Placed], times: Axis, speedups: Axis, sheet: Sheet) -> Iterable[Markup]:
    """Promotions and retractions last, so that nothing hides them."""
    room = sheet.most_bytes - BYTES_BESIDE_POINTS - BYTES_OF_POINT * len(placed)
    most_bytes = share_of_bytes(room, len(placed))
    for event in Event:
        marks: list[Markup] = []
        for one in placed:
            if one.point.event is event:
                x, y = times.place(one.point.at.timestamp()), speedups.place(one.speedup)
                name = title(describe_point(one.point), most_bytes)
                mark = draw_mark(SHAPES[event], x, y, SIZES[event])
                marks.append(element("g", name, mark) if name else mark)
        yield element("g", *marks, class_=f"event-{event}")


def describe_point(point: HistoryPoint) -> str:
    return (
        f"{wording.speedup(point.speedup)} {wording.interval((point.low, point.high))}, {point.event},"
        f" {wording.moment(point.at)}, {point.run}"
    )


def summarise(history: History, placed: list[Placed]) -> str:
    best = placed[-1].best
    promoted = sum(one.point.event is Event.PROMOTED for one in placed)
    retracted = sum(one.point.event is Event.RETRACTED for one in placed)
    return (
        f"The best of {wording.count_nouns(len(history.points), 'run')} is {wording.speedup(best)};"
        f" {wording.count_nouns(promoted, 'promotion')}, {wording.count_nouns(retracted, 'retraction')}."
    )


def history_table(history: History) -> Table:
    """Every run in order of time, none thinned out."""
    return Table(
        caption=clean_text(history.title),
        columns=("Time", "Run", "Speedup", "Interval", "Event"),
        rows=tuple(
            (
                wording.moment(point.at),
                clean_text(point.run),
                wording.speedup(point.speedup),
                wording.interval((point.low, point.high)),
                point.event.value,
            )
            for point in sorted(history.points, key=lambda point: point.at)
        ),
    )
