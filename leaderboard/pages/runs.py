"""The runs: all of them, newest first; and one, while it goes on and after it has ended."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import HTMLResponse
from markupsafe import Markup
from starlette.concurrency import run_in_threadpool
from starlette.responses import Response

from candidates.ledger.attempt_counts import count_attempts
from candidates.ledger.ledger import AnyReport, Ledger, LedgerError, RecordedProgress, RunEntry
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.run_report import report_run
from candidates.ledger.run_states import Ended, Running, RunStates
from candidates.run import OpReport, Ranking, RunReport, RunRequest, SearchEnd, Stage
from candidates.savings import savings_of
from candidates.spending import Amount, run_account
from leaderboard.board import Board
from leaderboard.charts.frame import fit_to_page
from leaderboard.charts.interval_bars import IntervalBars, IntervalRow, draw_interval_bars
from leaderboard.filters import FiltersRefused
from leaderboard.pages.found import run_of
from leaderboard.pages.render import board_of, render
from leaderboard.run_lines import line_of, settings_of
from leaderboard.run_progress import LiveRun, follow_run, read_news, sum_up

router = APIRouter()

SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchedOp:
    """A line of the ranking."""

    report: OpReport
    recoverable_share: float | None
    tried: int | None
    """None: it was not searched."""


@router.get("/runs", response_class=HTMLResponse)
def runs(request: Request) -> HTMLResponse:
    ledger, before = board_of(request).ledger, _number(request.query_params.get("before"), "before")
    found = ledger.runs(limit=SHOWN + 1, before=before)
    states = RunStates(ledger).of(found[:SHOWN])
    return render(
        request,
        "runs.html",
        lines=[line_of(run, states[run.run_id]) for run in found[:SHOWN]],
        total=ledger.count_runs(),
        next=found[SHOWN - 1].number if len(found) > SHOWN else None,
        is_first=before is None,
    )


@router.get("/runs/{run_id}", response_class=HTMLResponse)
def run(request: Request, run_id: str) -> HTMLResponse:
    board = board_of(request)
    entry = run_of(board, run_id)
    state = RunStates(board.ledger).of([entry])[run_id]
    report = entry.report or _report_so_far(board, entry)
    ranking = board.ledger.stage(run_id, Stage.RANKING, Ranking) if isinstance(report, RunReport) else None
    return render(
        request,
        "run.html",
        line=line_of(entry, state),
        state=state,
        live=None if isinstance(state, Ended) else _read_live(board.ledger, entry),
        is_followed=isinstance(state, Running)
        and request.query_params.get("live") != "off"
        and not board.streams.are_full,
        are_streams_full=board.streams.are_full,
        report=report,
        ops=_searched_ops(board.ledger, report, ranking) if isinstance(report, RunReport) else (),
        speedups=_draw_speedups(report) if isinstance(report, RunReport) else "",
        savings=savings_of(report) if isinstance(report, RunReport) else None,
        usd_per_device_hour=board.usd_per_device_hour,
        ranking=ranking,
        kernel_ops=_ops_by_candidate(report),
        attempts=count_attempts(board.ledger, run_id),
        live_build=board.builds.current(),
        settings=settings_of(entry.request),
    )


@router.get("/runs/{run_id}/events")
async def events(request: Request, run_id: str) -> Response:
    """Server-sent events; a client that was cut off says in Last-Event-ID what it knows, a page in `after`."""
    board = board_of(request)
    entry = await run_in_threadpool(run_of, board, run_id)
    seen = _number(request.headers.get("last-event-id") or request.query_params.get("after"), "after") or 0
    if board.streams.are_full:
        raise HTTPException(503, "as many readers follow runs as may: load the page again to see how far it is")

    def draw(live: LiveRun) -> str:
        return bytes(render(request, "_run_live.html", live=live).body).decode()

    return board.streams.answer(
        follow_run(partial(read_news, board.ledger, run_id), partial(_sum_up, entry), draw, seen)
    )


def _number(text: str | None, name: str) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdecimal() or len(text) > 18:
        raise FiltersRefused(f"{name}={text[:40]!r} is no number of ours: take the links of the page")
    return int(text)


def _read_live(ledger: Ledger, entry: RunEntry) -> LiveRun:
    spent = ModelCalls(ledger).used(run_account(entry.run_id))
    return _sum_up(entry, ledger.progress_after(entry.run_id, 0), spent)


def _sum_up(entry: RunEntry, progress: Sequence[RecordedProgress], spent: Amount) -> LiveRun:
    return sum_up(entry.request, entry.started_at, progress, spent, datetime.now(UTC))


def _report_so_far(board: Board, entry: RunEntry) -> RunReport | None:
    """Of a run from a trace that has not ended; None before it has a ranking, and for other runs."""
    if not isinstance(entry.request, RunRequest):
        return None
    try:
        return report_run(board.ledger, entry.run_id, board.builds.current())
    except LedgerError:
        return None


def _searched_ops(ledger: Ledger, report: RunReport, ranking: Ranking | None) -> Sequence[SearchedOp]:
    hot_ops = {} if ranking is None else {(hot_op.op, hot_op.site): hot_op for hot_op in ranking.hot_ops}
    ends: Mapping[str, SearchEnd] = {end.task_id: end for end in ledger.search_ends(report.run_id)}
    found = []
    for op in report.hot_ops:
        hot_op = hot_ops.get((op.op, op.site))
        end = None if hot_op is None else ends.get(hot_op.task_id or "")
        found.append(
            SearchedOp(
                report=op,
                recoverable_share=None if hot_op is None else hot_op.recoverable_share,
                tried=None if end is None else end.tried,
            )
        )
    return found


def _draw_speedups(report: RunReport) -> Markup | str:
    """Empty: nothing was measured."""
    rows = tuple(
        IntervalRow(
            label=op.op,
            baseline="" if op.best_baseline is None else op.best_baseline.value,
            estimate=op.speedup_over_best,
            low=None if op.interval is None else op.interval.low,
            high=None if op.interval is None else op.interval.high,
        )
        for op in report.hot_ops
        if op.speedup_over_best is not None
    )
    title = "Speedup of each op's best kernel over its best baseline"
    return fit_to_page(draw_interval_bars, IntervalBars(title=title, rows=rows)) if rows else ""


def _ops_by_candidate(report: AnyReport | None) -> Mapping[str, str]:
    """Of a candidate that several ops have, the one that ships it."""
    ops = (*report.hot_ops, *report.shipped) if isinstance(report, RunReport) else ()
    return {op.candidate: op.op for op in ops if op.candidate is not None}
