"""The API: what the pages show, as JSON and CSV, by the same ranking. `/api/v1/openapi.json` describes it."""

import csv
import io
from collections.abc import Iterator
from datetime import datetime
from itertools import chain
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request
from fastapi.responses import Response, StreamingResponse
from pydantic import BaseModel, ConfigDict, Field

from candidates.agent import Attempt
from candidates.candidate import Candidate
from candidates.exam import ExamReport
from candidates.ledger.candidate_facts import facts_of
from candidates.ledger.find_standings import MOST_STANDINGS, find_standings, standings_of
from candidates.ledger.ledger import RunEntry
from candidates.measurement import Measurement
from candidates.promotion import PromotionDecision
from candidates.run import RunReport, TuneReport
from candidates.standing import Cursor, Facets, Page, Sort, Standing
from candidates.task import KernelTask
from leaderboard.board import Board
from leaderboard.filters import Asked, read_filters, write_cursor
from leaderboard.pages.found import run_of
from leaderboard.pages.render import board_of
from leaderboard.run_lines import kind_of

router = APIRouter(prefix="/api/v1")

MOST_CSV_ROWS = 10_000
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", " ", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""The last four are wide forms of the first, which Excel takes for them."""


class WinsQuery(BaseModel):
    """Filters, as in the home page's URL; what is not given filters nothing."""

    model_config = ConfigDict(extra="forbid")

    state: str = Field(default="wins", description="wins, all, or one state")
    op: str | None = None
    site: str | None = None
    device: str | None = None
    model: str | None = Field(default=None, description="The served model")
    language: str | None = None
    agent: str | None = None
    endpoint: str | None = Field(default=None, description="The language model that wrote the kernel")
    class_: str | None = Field(default=None, alias="class", description="A workload class of the traffic")
    run: str | None = None
    task: str | None = None
    sort: Sort = Sort.AGE
    after: str | None = Field(default=None, description="`next` of the page before")

    def asked(self) -> Asked:
        given = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        return read_filters(given)


class WinsPageQuery(WinsQuery):
    limit: int = Field(default=50, ge=1, le=MOST_STANDINGS)


class Wins(BaseModel):
    standings: tuple[Standing, ...]
    next: str | None
    """What `after` takes for the next page; None: this is the last."""


class CandidateDocument(BaseModel):
    id: str
    candidate: Candidate
    standings: tuple[Standing, ...]


class TrialDocument(BaseModel):
    """What one run, or a person, had judged and measured."""

    run_id: str | None
    at: datetime
    attempt: Attempt | None
    measurements: tuple[Measurement, ...]
    """In the order in which they were made, the screening first."""


class CandidateAtTaskDocument(BaseModel):
    task_id: str
    trials: tuple[TrialDocument, ...]
    """The newest first, some twenty at most."""
    promotion: PromotionDecision | None
    """The gates that it passed or failed last."""
    builds: tuple[str, ...]


class TaskDocument(BaseModel):
    id: str
    """Of the whole task, with its hidden workloads."""
    task: KernelTask
    hidden_workloads: int


class RunDocument(BaseModel):
    run_id: str
    kind: str
    started_at: datetime
    ended_at: datetime | None
    report: RunReport | TuneReport | ExamReport | None


class RunsPage(BaseModel):
    runs: tuple[RunDocument, ...]
    next: int | None
    """What `before` takes for the next page; None: this is the last."""


@router.get("/wins")
def wins(request: Request, query: Annotated[WinsPageQuery, Query()]) -> Wins:
    """Kernels by the page's ranking: the newest first, or the largest of another order."""
    page = _find(board_of(request), query.asked(), query.limit)
    return Wins(standings=page.standings, next=None if page.next is None else write_cursor(page.next))


@router.get("/wins.csv")
def wins_csv(request: Request, query: Annotated[WinsQuery, Query()]) -> Response:
    """The same as CSV, at most ten thousand rows; texts that a spreadsheet would take for a formula begin with an
    apostrophe."""
    lines = _csv_lines(board_of(request), query.asked())
    # Asked for before the answer begins: what is wrong then can still be said.
    lines = chain([next(lines)], lines)
    headers = {"content-disposition": 'attachment; filename="wins.csv"'}
    return StreamingResponse(lines, media_type="text/csv; charset=utf-8", headers=headers)


@router.get("/facets")
def facets(request: Request) -> Facets:
    """What there is to filter by."""
    return board_of(request).facets()


@router.get("/candidates/{candidate_id}")
def candidate(request: Request, candidate_id: str) -> CandidateDocument:
    """A kernel's source, and how it stands at each task; the start of an id does where it is the only one."""
    board = board_of(request)
    found = board.ledger.candidate(candidate_id)
    return CandidateDocument(
        id=found.id, candidate=found, standings=standings_of(board.ledger, [found.id], board.serving())
    )


@router.get("/candidates/{candidate_id}/tasks/{task_id}")
def candidate_at_task(request: Request, candidate_id: str, task_id: str) -> CandidateAtTaskDocument:
    """Verdicts with their evidence, every measurement, and gates of a kernel for a task."""
    ledger = board_of(request).ledger
    facts = facts_of(ledger, ledger.candidate(candidate_id).id, ledger.task(task_id).id)
    return CandidateAtTaskDocument(
        task_id=facts.task.id,
        trials=tuple(TrialDocument(**trial._asdict()) for trial in facts.trials),
        promotion=None if facts.gates is None else facts.gates.decision,
        builds=facts.builds,
    )


@router.get("/runs")
def runs(
    request: Request,
    before: Annotated[int | None, Query(ge=0, lt=1 << 63)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 20,
) -> RunsPage:
    """Newest first; `before` is `next` of the page before."""
    found = board_of(request).ledger.runs(limit=limit + 1, before=before)
    following = found[limit - 1].number if len(found) > limit else None
    return RunsPage(runs=tuple(_document(run) for run in found[:limit]), next=following)


@router.get("/runs/{run_id}")
def run(request: Request, run_id: str) -> RunDocument:
    return _document(run_of(board_of(request), run_id))


@router.get("/tasks/{task_id}")
def task(request: Request, task_id: str) -> TaskDocument:
    """What kernels are written for; of workloads that they are judged at in secret there is only the number."""
    found = board_of(request).ledger.task(task_id)
    public = found.model_copy(update={"workloads": found.public_workloads})
    return TaskDocument(id=found.id, task=public, hidden_workloads=len(found.hidden_workloads))


def _find(board: Board, asked: Asked, limit: int, after: Cursor | None = None) -> Page:
    serving = board.serving()
    after = after or asked.after
    return find_standings(board.ledger, asked.filters, asked.sort, serving=serving, limit=limit, after=after)


def _csv_lines(board: Board, asked: Asked) -> Iterator[str]:
    """Page after page, so that no list of thousands lies in memory."""
    columns = tuple(name for name in Standing.model_fields if name != "parents")
    page, rows = _find(board, asked, MOST_STANDINGS), 0
    yield _csv_line([name for column in columns for name in _csv_names(column)])
    while True:
        for standing in page.standings:
            content = standing.model_dump(mode="json")
            yield _csv_line([cell for column in columns for cell in _csv_cells(column, content[column])])
        rows += len(page.standings)
        if page.next is None or rows >= MOST_CSV_ROWS:
            return
        page = _find(board, asked, MOST_STANDINGS, page.next)


def _csv_names(column: str) -> tuple[str, ...]:
    return ("speedup_low", "speedup_high") if column == "interval" else (column,)


def _csv_cells(column: str, value: Any) -> tuple[Any, ...]:
    if column == "interval":
        return (None, None) if value is None else tuple(value)
    return (f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA_STARTS) else value,)


def _csv_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(cells)
    return line.getvalue()


def _document(run: RunEntry) -> RunDocument:
    return RunDocument(
        run_id=run.run_id,
        kind=kind_of(run.request),
        started_at=run.started_at,
        ended_at=run.ended_at,
        report=run.report,
    )
