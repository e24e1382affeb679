"""The page of an op: its best kernel on a device, what else was tried there, and the task that kernels are written for.

Of an op that is tuned on several devices, at several sites or for several models it shows one place at a time.
"""

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup

from candidates.device_facts import device_facts
from candidates.ledger.ledger import Ledger
from candidates.ledger.op_standings import (
    OpPlace,
    TriedOn,
    ancestors_of,
    best_win_of,
    devices_of,
    fastest_of,
    latest_measurement,
    latest_task_id,
    latest_wins_of,
    places_of,
    shares_of,
)
from candidates.measurement import Baseline, Measurement
from candidates.standing import InService, Standing, State
from candidates.task import KernelTask, Workload
from leaderboard.board import Board
from leaderboard.charts.frame import fit_to_page, frame_natural
from leaderboard.charts.heat_map import HeatMap, draw_heat_map
from leaderboard.charts.history import draw_history, history_table
from leaderboard.charts.lineage import Lineage, draw_lineage
from leaderboard.charts.roofline import draw_roofline, roofline_table
from leaderboard.charts.table import Table
from leaderboard.pages.op_charts import compose_heat_map, compose_history, compose_lineage
from leaderboard.pages.op_roofline import Measured, compose_roofline
from leaderboard.pages.render import board_of, link, not_found, render
from leaderboard.wording import cut

router = APIRouter()

T = TypeVar("T")

LISTED, LOOKED_AT = 50, 60
"""Of the fastest kernels."""

MOST_WINS, MOST_OTHERS = 80, 20
"""In the history: of each state the latest, and the fastest that did not win."""

MOST_ANCESTORS = 16
MOST_CHOICES = 40
"""Links to other devices, sites and models, of each."""

OTHERS_ON_ROOFLINE = 3
MOST_WORKLOADS, MOST_TENSORS = 40, 40
_DRAWINGS_KEPT = 256
"""Of about 30 kB. To draw takes longer than to read, and what was drawn changes with a new measurement alone."""

_NOT_THE_BEST = (State.RETRACTED, State.REJECTED)


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """Another device, site or model that the op has."""

    kind: str
    words: str
    href: str
    is_chosen: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Drawn:
    """A chart, the numbers behind it, and what must be said of it."""

    chart: Markup | None
    table: Table | None = None
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class First(Generic[T]):
    """As many of a list as there is room for."""

    shown: Sequence[T]
    left_out: int


@router.get("/ops/{op:path}", response_class=HTMLResponse)
def show_op(
    request: Request, op: str, device: str | None = None, site: str | None = None, model: str | None = None
) -> HTMLResponse:
    """`model=`, empty, is of no model; what is not given is the one that was tried last, of some model if any was."""
    board = board_of(request)
    serving = board.serving()
    tried_on = devices_of(board.ledger, op, serving)
    tried = next((each for each in tried_on if not device or each.device_id == device), None)
    if tried is None:
        where = f" on device {cut(device or '', 60)}" if tried_on else ""
        raise not_found(f"nothing was tried for op {cut(op, 120)}{where}")
    places = places_of(board.ledger, op, tried.device_id)
    asked_for = [each for each in places if _is_asked_for(each, site, model)]
    # What people judge by hand is of no model: it should not hide what a run found.
    place = next((each for each in asked_for if each.served_model is not None), next(iter(asked_for), None))
    if place is None:
        raise not_found(f"op {cut(op, 120)} was not tried lately at that site and for that model")
    choices = tuple(_choices(request, op, place, tried_on, places))
    return render(request, "op.html", op=op, tried=tried, choices=choices, **_read(request, board, op, place, serving))


def _is_asked_for(place: OpPlace, site: str | None, model: str | None) -> bool:
    return (not site or place.site == site) and (model is None or place.served_model == (model or None))


def _choices(
    request: Request, op: str, place: OpPlace, tried_on: Sequence[TriedOn], places: Sequence[OpPlace]
) -> Iterator[Choice]:
    """None where there is nothing to choose from."""
    device_id, site, model = place
    devices = {each.device_id: {"device": each.device_id} for each in tried_on}
    sites = {each.site: {"device": device_id, "site": each.site} for each in places}
    models = {
        each.served_model: {"device": device_id, "site": site, "model": each.served_model or ""}
        for each in places
        if each.site == site
    }
    for kind, chosen, known in (("Device", device_id, devices), ("Site", site, sites), ("Model", model, models)):
        if len(known) > 1:
            for name, query in list(known.items())[:MOST_CHOICES]:
                href = link(request, "ops", op, **query)
                yield Choice(kind=kind, words=name or "no model", href=href, is_chosen=name == chosen)


def _read(request: Request, board: Board, op: str, place: OpPlace, serving: InService) -> dict[str, Any]:
    """What the template shows of the op at the place."""
    ledger = board.ledger
    fastest = fastest_of(ledger, op, place, serving, LOOKED_AT)
    best = best_win_of(ledger, op, place, serving) or next(
        (each for each in fastest if each.state not in _NOT_THE_BEST), None
    )
    # Of an op without any measurement there may be a kernel that says which task it is for.
    task_id = best.task_id if best is not None else latest_task_id(ledger, op, place)
    task = None if task_id is None else ledger.task(task_id)
    ceilings = None if task is None else ledger.ceilings(place.device_id, task.threads)
    fingerprint = ledger.device(place.device_id)
    measured = None if best is None else latest_measurement(ledger, best.task_id, best.candidate_id)
    calls = {} if task is None else task.public_calls_per_hour
    kin = fastest if best is None else (best, *ancestors_of(ledger, best, serving, MOST_ANCESTORS), *fastest)
    heat_map = roofline = None
    if best is not None and task is not None and measured is not None:
        heat_map = _draw_whole(draw_heat_map, compose_heat_map(task, measured))
        others = _measure_others(request, ledger, best, fastest)
        explained = compose_roofline(task, ceilings, _measured(request, best, measured), others)
        roofline = Drawn(chart=None, sentence=explained.sentence)
        if explained.roofline is not None:
            chart, table = _draw_fitted(draw_roofline, explained.roofline), roofline_table(explained.roofline)
            roofline = Drawn(chart=chart, table=table, sentence=explained.sentence)
    history = compose_history(latest_wins_of(ledger, op, place, MOST_WINS), fastest[:MOST_OTHERS])
    lineage = compose_lineage(best, kin, {each.candidate_id: _href(request, each) for each in kin})
    return {
        "place": place,
        "best": best,
        "task": task,
        "task_id": task_id,
        "device": () if fingerprint is None else device_facts(fingerprint, ceilings).splitlines(),
        "shares": {} if task_id is None else shares_of(ledger, task_id),
        "measured": measured,
        "baselines": _baselines(measured),
        "calls": calls,
        "rows": _first(() if measured is None else measured.by_traffic(calls), MOST_WORKLOADS),
        "inputs": _first(() if task is None else task.inputs, MOST_TENSORS),
        "outputs": _first(() if task is None else task.outputs, MOST_TENSORS),
        "workloads": _first(_by_calls(task), MOST_WORKLOADS),
        "heat_map": heat_map,
        "roofline": roofline,
        "history": Drawn(chart=_draw_fitted(draw_history, history), table=history_table(history)),
        "lineage": _draw_whole(draw_lineage, lineage),
        "standings": fastest[:LISTED],
    }


_draw_fitted = functools.lru_cache(_DRAWINGS_KEPT)(fit_to_page)


@functools.lru_cache(_DRAWINGS_KEPT)
def _draw_whole(draw: Callable[[Any], Markup], chart: HeatMap | Lineage) -> Markup:
    return frame_natural(draw(chart))


def _measure_others(
    request: Request, ledger: Ledger, best: Standing, fastest: Sequence[Standing]
) -> tuple[Measured, ...]:
    others = [each for each in fastest if each.candidate_id != best.candidate_id and each.state not in _NOT_THE_BEST]
    found = (
        (each, latest_measurement(ledger, each.task_id, each.candidate_id)) for each in others[:OTHERS_ON_ROOFLINE]
    )
    return tuple(_measured(request, each, measured) for each, measured in found if measured is not None)


def _measured(request: Request, standing: Standing, measurement: Measurement) -> Measured:
    label = f"{cut(standing.agent, 24)} {standing.candidate_id[:8]}"
    return Measured(label=label, href=_href(request, standing), measurement=measurement)


def _href(request: Request, standing: Standing) -> str:
    return link(request, "candidates", standing.candidate_id)


def _first(every: Sequence[T], most: int) -> First[T]:
    return First(shown=every[:most], left_out=max(0, len(every) - most))


def _by_calls(task: KernelTask | None) -> Sequence[Workload]:
    """Those that are called most often first."""
    public = () if task is None else task.public_workloads
    return sorted(public, key=lambda workload: (-workload.calls_per_hour, workload.name))


def _baselines(measured: Measurement | None) -> tuple[Baseline, ...]:
    """Those that were measured at any workload."""
    told = () if measured is None else measured.workloads
    return tuple(baseline for baseline in Baseline if any(baseline in each.baselines_us for each in told))
