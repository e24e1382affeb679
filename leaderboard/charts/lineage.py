"""Lineage: which candidate came of which, parents to the left of their children."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum

from markupsafe import Markup

from leaderboard import wording
from leaderboard.charts.ancestry import choose_kin, number_generations
from leaderboard.charts.axis import usable_ratio
from leaderboard.charts.href import check_href
from leaderboard.charts.marks import Entry, Shape, draw_legend, draw_mark
from leaderboard.charts.svg import (
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
    share_of_bytes,
    text,
)

BOX_WIDTH, BOX_HEIGHT = 126.0, 36.0
STEP_X, STEP_Y = 162.0, 44.0
LETTERS = 14
MOST_LINES = 4
"""Parents of one candidate that lines are drawn from."""

MOST_DRAWN = 60
BYTES_BESIDE_NAMES = 38_000
"""Boxes, links of the greatest length and lines of 60 candidates."""


class State(StrEnum):
    """What became of a candidate."""

    WAITING = "waiting"
    REJECTED = "rejected"
    ACCEPTED = "accepted"
    PROMOTED = "promoted"
    RETRACTED = "retracted"


SHAPES = {
    State.WAITING: Shape.SQUARE,
    State.REJECTED: Shape.DOWN,
    State.ACCEPTED: Shape.CIRCLE,
    State.PROMOTED: Shape.UP,
    State.RETRACTED: Shape.CROSS,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A candidate. Its parents are whatever its author claims: they may not exist, and may be its descendants."""

    id: str
    label: str
    state: State
    speedup: float | None = None
    href: str | None = None
    parents: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_href(self.href)


@dataclass(frozen=True, slots=True, kw_only=True)
class Lineage:
    """Of nodes that share an id the first counts."""

    title: str
    nodes: tuple[Node, ...]
    highlighted: str | None = None
    most_drawn: int = MOST_DRAWN

    def __post_init__(self) -> None:
        if not 1 <= self.most_drawn <= MOST_DRAWN:
            raise ValueError(f"{self.most_drawn} nodes to draw, not 1 to {MOST_DRAWN}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    x: float
    y: float


def draw_lineage(lineage: Lineage) -> Markup:
    if not lineage.nodes:
        return note(lineage.title, "No candidates yet.")
    nodes: dict[str, Node] = {}
    for node in lineage.nodes:
        nodes.setdefault(node.id, node)
    rank = sorted(nodes, key=lambda one: -(usable_ratio(nodes[one].speedup) or 0.0))
    everyone = {one: node.parents for one, node in nodes.items()}
    chosen = choose_kin(everyone, rank, lineage.highlighted, lineage.most_drawn)
    drawn = set(chosen)
    parents = {one: tuple(other for other in dict.fromkeys(nodes[one].parents) if other in drawn) for one in chosen}
    states = [state for state in State if any(nodes[one].state is state for one in chosen)]
    legend = draw_legend(
        (Entry(shape=SHAPES[state], kind=f"state-{state}", name=state.value) for state in states), 2, 0, 344
    )
    places = place_nodes(parents, legend.height + 10)
    left_out = len(nodes) - len(chosen)
    bottom = max(place.y for place in places.values()) + BOX_HEIGHT
    more = [text(2, bottom + 16, f"{left_out} more not drawn", "chart-muted")] if left_out else []
    most_bytes = share_of_bytes(NATURAL_BYTES - BYTES_BESIDE_NAMES, len(chosen))
    return image(
        name=lineage.title,
        summary=summarise(nodes.values(), len(chosen)),
        kind=NATURAL,
        width=max(344.0, max(place.x for place in places.values()) + BOX_WIDTH + 2),
        height=bottom + (30 if more else 4),
        pieces=[
            *legend.pieces,
            *draw_lines(parents, places),
            *(draw_stub(places[one]) for one in chosen if len(parents[one]) < len(set(nodes[one].parents))),
            *(draw_node(nodes[one], places[one], one == lineage.highlighted, most_bytes) for one in chosen),
            *more,
        ],
    )


def place_nodes(parents: Mapping[str, tuple[str, ...]], top: float) -> dict[str, Place]:
    """A generation below the other from left to right, a child about as high as its parents (Sugiyama)."""
    generations = number_generations(parents)
    layers: defaultdict[int, list[str]] = defaultdict(list)
    for one, generation in generations.items():
        layers[generation].append(one)
    tallest = max(len(layer) for layer in layers.values())
    places: dict[str, Place] = {}
    for generation in sorted(layers):

        def height(one: str) -> float:
            above = [places[parent].y for parent in parents[one] if parent in places]
            return sum(above) / len(above) if above else top + tallest * STEP_Y

        y = top
        layer = sorted(layers[generation], key=height)
        for index, one in enumerate(layer):
            # As high as its parents where there is room, yet never so low that the rest of the layer has none.
            lowest = top + (tallest - len(layer) + index) * STEP_Y
            y = max(y, min(height(one), lowest)) if generation else y
            places[one] = Place(x=12 + generation * STEP_X, y=y)
            y += STEP_Y
    return places


def draw_lines(parents: Mapping[str, tuple[str, ...]], places: Mapping[str, Place]) -> Iterator[Markup]:
    """Lines to the right; a parent that is no generation before its child closes a circle and gets none."""
    steps = ""
    for child, mine in parents.items():
        end = places[child]
        for parent in [parent for parent in mine if places[parent].x < end.x][:MOST_LINES]:
            start = places[parent]
            x, y, middle = start.x + BOX_WIDTH, start.y + BOX_HEIGHT / 2, end.y + BOX_HEIGHT / 2
            bend = format_number(end.x - (STEP_X - BOX_WIDTH) / 2)
            steps += (
                f"{move(x, y)}H{format_number(end.x - STEP_X + BOX_WIDTH)}"
                f"C{bend} {format_number(y)} {bend} {format_number(middle)}"
                f" {format_number(end.x)} {format_number(middle)}"
            )
    if steps:
        yield path(steps, "chart-line")


def draw_stub(place: Place) -> Markup:
    """Stands for parents that are not drawn."""
    return path(f"{move(place.x - 10, place.y + BOX_HEIGHT / 2)}h10", "chart-line chart-stub")


def draw_node(node: Node, place: Place, is_highlighted: bool, most_bytes: int) -> Markup:
    name = f"{node.state}, {wording.speedup(node.speedup)}, {node.label}"
    box = element(
        "rect",
        class_="chart-box chart-highlighted" if is_highlighted else "chart-box",
        x=place.x,
        y=place.y,
        width=BOX_WIDTH,
        height=BOX_HEIGHT,
        rx=4,
    )
    return link(
        node.href,
        name,
        box,
        draw_mark(SHAPES[node.state], place.x + 13, place.y + 25, 4, f"state-{node.state}"),
        label(place.x + 8, place.y + 11, node.label, LETTERS + 1),
        text(place.x + 23, place.y + 26, wording.speedup(node.speedup), "chart-number"),
        most_bytes=most_bytes,
    )


def summarise(nodes: Collection[Node], drawn: int) -> str:
    counts = Counter(node.state for node in nodes)
    found = ", ".join(f"{counts[state]} {state}" for state in State if counts[state])
    speedups = [speedup for node in nodes if (speedup := usable_ratio(node.speedup)) is not None]
    fastest = f", the fastest {wording.speedup(max(speedups))}" if speedups else ""
    return f"{wording.count_nouns(len(nodes), 'candidate')} ({found}){fastest}; {drawn} are drawn."
