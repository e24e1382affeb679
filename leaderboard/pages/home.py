"""The home page: what the last nightly run came to, and the table of wins with its filters."""

from dataclasses import dataclass

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from candidates.ledger.find_standings import find_standings
from candidates.ledger.ledger import Ledger, RunEntry
from candidates.ledger.run_states import RunStates
from candidates.run import PromoteRequest, RunReport, RunRequest
from candidates.savings import Savings, savings_of
from candidates.standing import Filters, Sort, State
from leaderboard.filters import read_filters, write_cursor
from leaderboard.pages.render import board_of, link, render

router = APIRouter()

SHOWN = 50
SHOWN_ELSE = 8
"""Of what was rejected or stayed undecided, below the wins."""
_NEWEST = 5
"""Runs among which those are that go on."""
_RUNS_LOOKED_THROUGH = 200
"""For the last run of a trace; searches of single tasks are runs too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Headline:
    """Of the last run from a trace to a build that has ended."""

    run: RunEntry
    report: RunReport
    savings: Savings | None


@router.get("/", response_class=HTMLResponse)
def home(request: Request) -> HTMLResponse:
    board, asked = board_of(request), read_filters(request.query_params)
    serving = board.serving()
    page = find_standings(board.ledger, asked.filters, asked.sort, serving=serving, limit=SHOWN, after=asked.after)
    is_plain = not asked.query and asked.after is None
    others = Filters(states=(State.REJECTED, State.UNDECIDED, State.LOST))
    shown = render(
        request,
        "home.html",
        headline=find_headline(board.ledger),
        running=RunStates(board.ledger).going_on(among=_NEWEST),
        live_build=board.builds.current(),
        runs=board.ledger.count_runs(),
        usd_per_device_hour=board.usd_per_device_hour,
        asked=asked,
        sorts=list(Sort),
        states=("wins", "all", *(state.value for state in State)),
        facets=board.facets(),
        standings=page.standings,
        next=None if page.next is None else write_cursor(page.next),
        others=find_standings(board.ledger, others, serving=serving, limit=SHOWN_ELSE).standings if is_plain else (),
    )
    if "hx-request" in request.headers:
        # The address that the browser shows, and people hand on: without the filters that filter nothing.
        shown.headers["hx-push-url"] = link(request, "", **asked.query)
    return shown


def find_headline(ledger: Ledger) -> Headline | None:
    """None: no run of a trace has ended."""
    before, looked_through, more = None, 0, 2
    while looked_through < _RUNS_LOOKED_THROUGH:
        # Mostly it is the newest or the one before, and a report is long.
        runs = ledger.runs(limit=more, before=before)
        for run in runs:
            is_nightly = isinstance(run.request, RunRequest) and not isinstance(run.request, PromoteRequest)
            if is_nightly and isinstance(run.report, RunReport):
                return Headline(run=run, report=run.report, savings=savings_of(run.report))
        if not runs:
            return None
        before, looked_through, more = runs[-1].number, looked_through + more, 2 * more
    return None
