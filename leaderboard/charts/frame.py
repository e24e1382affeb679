"""Frame: a chart's place on a page, where it fits a telephone as well as a desk without a script."""

from collections.abc import Callable
from typing import TypeVar

from markupsafe import Markup

from leaderboard.charts.svg import NARROW, WIDE, Sheet, element

Chart = TypeVar("Chart")


def fit_to_page(draw: Callable[[Chart, Sheet], Markup], chart: Chart) -> Markup:
    """Both drawings; charts.css shows the one that the frame has room for, so text keeps its size."""
    wide, narrow = draw(chart, WIDE), draw(chart, NARROW)
    # A note in place of a chart is the same on both sheets, and shown at every width.
    return element("div", wide, *([narrow] if narrow != wide else []), class_="chart-frame")


def frame_natural(drawing: Markup) -> Markup:
    """A chart at its own width, which scrolls sideways where the page is narrower. Keyboards scroll it by focus."""
    return element("div", drawing, class_="chart-frame chart-scroll", tabindex="0")
