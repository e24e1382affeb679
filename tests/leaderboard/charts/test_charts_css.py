"""The style sheet of charts: contrasts, and a rule for every class that charts write."""

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

from leaderboard.charts.frame import fit_to_page, frame_natural
from leaderboard.charts.heat_map import HeatCell, HeatMap, draw_heat_map
from leaderboard.charts.history import Event, History, HistoryPoint, draw_history
from leaderboard.charts.interval_bars import IntervalBars, IntervalRow, draw_interval_bars
from leaderboard.charts.lineage import Lineage, Node, State, draw_lineage
from leaderboard.charts.roofline import Point, Roof, Roofline, Series, draw_roofline
from leaderboard.charts.svg import note

CSS = (Path(__file__).parents[3] / "leaderboard" / "static" / "charts.css").read_text(encoding="utf-8")
LIGHT, DARK = (
    dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", block)) for block in re.findall(r":root \{(.*?)\}", CSS, re.S)
)
HEATS = ["even", *(f"{side}-{depth}" for side in ("faster", "slower") for depth in range(1, 5))]


def luminance(colour: str) -> float:
    """Relative luminance of WCAG 2.2."""
    parts = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("colours", [LIGHT, DARK], ids=["light", "dark"])
def test_text_and_marks_stand_out(colours: dict[str, str]) -> None:
    for paper in ("--chart-paper", "--chart-box"):
        for text in ("--chart-ink", "--chart-muted"):
            assert contrast(colours[text], colours[paper]) >= 4.5, (text, paper)
        for mark in ("--chart-faster", "--chart-slower", "--chart-axis", "--chart-faint"):
            assert contrast(colours[mark], colours[paper]) >= 3, (mark, paper)
    for heat in HEATS:
        assert contrast(colours[f"--heat-{heat}-text"], colours[f"--heat-{heat}"]) >= 4.5, heat


def test_light_and_dark_name_the_same_colours() -> None:
    assert LIGHT.keys() == DARK.keys()


def test_every_colour_of_heat_has_its_rules() -> None:
    for heat in HEATS:
        assert f".heat-{heat} {{" in CSS
        assert f".heat-{heat}-text {{" in CSS


def test_every_class_that_charts_write_has_a_rule() -> None:
    bars = IntervalBars(
        title="t",
        rows=tuple(
            IntervalRow(label=str(speedup), baseline="eager", estimate=speedup, low=speedup, high=speedup)
            for speedup in (0.5, 1.0, 2.0)
        ),
    )
    cells = tuple(HeatCell(row="a", column=str(speedup), speedup=speedup) for speedup in (None, 0.1, 1.0, 9.0))
    roof = Roof(label="L2", points=((1.0, 1.0), (2.0, 2.0)))
    points = tuple(Point(label="op", series=series, x=1.0, y=1.0) for series in Series)
    runs = tuple(
        HistoryPoint(at=datetime(2026, 11, day + 1, tzinfo=UTC), run="r", speedup=1.0, low=0.9, high=1.1, event=event)
        for day, event in enumerate(Event)
    )
    nodes = tuple(Node(id=state, label="c", state=state, parents=("waiting", "nobody")) for state in State)
    drawings = (
        fit_to_page(draw_interval_bars, bars),
        frame_natural(draw_heat_map(HeatMap(title="t", cells=cells))),
        fit_to_page(draw_roofline, Roofline(title="t", roofs=(roof,), points=points)),
        fit_to_page(draw_history, History(title="t", points=runs)),
        frame_natural(draw_lineage(Lineage(title="t", nodes=nodes, highlighted="waiting"))),
        note("t", "None yet."),
    )
    written = {kind for kinds in re.findall(r'class="([^"]+)"', "".join(drawings)) for kind in kinds.split()}
    assert {kind for kind in written if not re.search(rf"\.{kind}\b(?!-)", CSS)} == set()
