"""The pages of runs, over real ledgers."""

import asyncio
import http.client
import re
import time
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import update
from sqlalchemy.orm import Session

from candidates.exam import FAST_P, ExamReport, ExamRequest, ExamTask, FastShare, MeanSpeedup, TaskResult, share_of
from candidates.hot_ops import HotOp
from candidates.ledger.ledger import Ledger
from candidates.ledger.run_report import report_run
from candidates.ledger.run_states import RunStates
from candidates.ledger.tables import ProgressRow, RunRow
from candidates.measurement import Interval
from candidates.measurement import Stage as MeasurementStage
from candidates.run import Progress, Ranking, RunRequest, SearchEnd, Stage, TuneReport, TuneRequest
from candidates.savings import savings_of
from candidates.spending import BudgetStop, ModelBudget
from candidates.task import SiteLevel
from leaderboard.board import Board
from leaderboard.http.streams import Streams, write_event
from leaderboard.run_progress import follow_run, read_news, sum_up
from tests.candidates.ledger.told_facts import KERNEL, TASK, promote, retract
from tests.candidates.serving_build.nights import REPLAY
from tests.leaderboard.boards import make_board, visit
from tests.leaderboard.served_board import serve

HOSTILE = "<script>alert(1)</script>\"'&\u202e\x1b[31m"
REQUEST = RunRequest(traces=(f"/traces/{HOSTILE}.jsonl",), trace_digest="0", model=f"model{HOSTILE}")


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return make_board(tmp_path)


def hot_op(op: str, task_id: str | None, obstacle: str | None = None) -> HotOp:
    return HotOp(
        op=op,
        site="model.layers.*",
        level=SiteLevel.LEAF,
        task_id=task_id,
        obstacle=obstacle,
        share_of_time=0.4,
        share_by_class={"chat": 0.5, HOSTILE: 0.25},
        time_us=10.0,
        floor_us=4.0,
        recoverable_share=0.24,
        workloads=(),
    )


def rank(ledger: Ledger, run_id: str) -> None:
    ledger.put_stage(run_id, Stage.REPLAY, REPLAY)
    hot_ops = (hot_op(HOSTILE, TASK.id), hot_op("Wide", None, f"it takes {HOSTILE}"))
    ranking = Ranking(
        coverage=0.74,
        threads=1,
        eager_decode_us_by_threads={1: 10.0},
        hot_ops=hot_ops,
        sites={},
        rank_correlation={"chat~coding": 0.93},
        unmatched={f"calls of {HOSTILE}": 7},
    )
    ledger.put_stage(run_id, Stage.RANKING, ranking)


def end_run(ledger: Ledger, run_id: str) -> None:
    """With a build that passed its gates."""
    promote(ledger, run_id)
    rank(ledger, run_id)
    ledger.put_search_end(
        run_id,
        SearchEnd(
            task_id=TASK.id,
            op=HOSTILE,
            decision="won",
            candidate_id=KERNEL.id,
            reason=f"a win {HOSTILE}",
            stop_reason="budget: time is spent",
            tried=4,
        ),
    )
    ledger.end_run(report_run(ledger, run_id, None))


def tune(ledger: Ledger, run_id: str) -> None:
    ledger.open_run(TuneRequest(task_id=run_id, op=HOSTILE), run_id)
    stop = BudgetStop(account=run_id, limit="nano_usd", cap=2 * 10**9, used=10**9, asked=2 * 10**9)
    ledger.end_run(
        TuneReport(
            run_id=run_id,
            task=TASK.id,
            op=HOSTILE,
            decision="won",
            candidate=KERNEL.id,
            best_baseline=None,
            speedup_over_best=2.7,
            interval=Interval(2.6, 2.8),
            share_of_floor=0.5,
            tried=12,
            reason=HOSTILE,
            stop_reason=HOSTILE,
            spend_usd=1.25,
            spend_tokens=1000,
            budget_stops=(stop,),
            wall_s=400,
        )
    )


def sit_exam(ledger: Ledger, run_id: str) -> None:
    request = ExamRequest(
        endpoint="local",
        model=HOSTILE,
        is_priced=True,
        tasks=(ExamTask(task_id=TASK.id, op=HOSTILE),),
        models=ModelBudget(),
        search_s=60,
        attempts=8,
        last_stage=MeasurementStage.CONFIRM,
    )
    ledger.open_run(request, run_id)
    result = TaskResult(
        task=TASK.id,
        op=HOSTILE,
        decision="won",
        reason=HOSTILE,
        stop_reason="attempts",
        samples=8,
        judged=6,
        accepted=4,
        candidate=KERNEL.id,
        speedup_over_best=1.7,
        interval=Interval(1.6, 1.8),
        stage=MeasurementStage.CONFIRM,
        spend_usd=0.12,
        spend_tokens=100,
        model_s=30,
    )
    ledger.end_run(
        ExamReport(
            run_id=run_id,
            endpoint="local",
            model=HOSTILE,
            tasks=(result,),
            tasks_correct=share_of(1, 1),
            samples_accepted=share_of(4, 8),
            fast_p=tuple(FastShare(p=p, share=share_of(int(p < 1.7), 1)) for p in FAST_P),
            speedup=MeanSpeedup(speedup=1.7, interval=Interval(1.6, 1.8), tasks=1),
            stages={MeasurementStage.CONFIRM: 1},
            wins=1,
            usd_per_win=0.12,
            spend_usd=0.12,
            spend_tokens=100,
            model_s=30,
            wall_s=60,
            stop_reasons={HOSTILE: 1},
            budget_stops=(),
        )
    )


def progress(op: str | None, tried: int, message: str = "screened", stage: Stage = Stage.SEARCH) -> Progress:
    return Progress(stage=stage, op=op, tried=tried, best_speedup=1.5 if tried else None, message=message)


def make_old(ledger: Ledger, run_id: str) -> None:
    then = datetime.now(UTC) - timedelta(hours=2)
    with Session(ledger.engine) as session, session.begin():
        for kind in (RunRow, ProgressRow):
            session.execute(update(kind).where(kind.run_id == run_id).values(recorded_at=then))


def assert_harmless(page: str) -> None:
    assert "<script>alert" not in page
    assert "\u202e" not in page
    assert "\x1b" not in page
    assert not re.search(r"<[^>]*\s(style|on[a-z]+)=", page)
    assert not re.search(r"<script(?![^>]*\ssrc=)", page)
    assert "<style" not in page


def test_an_empty_ledger_says_how_to_begin(board: Board) -> None:
    page = visit(board).get("/runs")
    assert page.status_code == 200
    assert "compiler-agent run" in page.text
    assert visit(board).get("/runs/run-1").status_code == 404
    assert visit(board).get("/runs/run-1/events").status_code == 404


def test_runs_are_listed_newest_first_with_what_they_came_to(board: Board) -> None:
    end_run(board.ledger, "run-1")
    tune(board.ledger, "tune-1")
    sit_exam(board.ledger, "exam-1")
    page = visit(board).get("/runs").text
    assert re.findall(r'href="/runs/([a-z0-9-]+)"', page) == ["exam-1", "tune-1", "run-1"]
    for words in ("1 of 2 ops shipped", "1.30×", "won after 12 candidates", "1 of 1 tasks right, 1 won"):
        assert words in page
    assert_harmless(page)


def test_pages_of_runs_follow_each_other_without_gaps(board: Board) -> None:
    for number in range(120):
        board.ledger.open_run(TuneRequest(task_id=f"{number}", op="Linear"), f"tune-{number}")
    browser, found, path = visit(board), [], "/runs"
    while path:
        page = browser.get(path).text
        found += re.findall(r'href="/runs/(tune-\d+)"', page)
        following = re.search(r'rel="next" href="([^"]+)"', page)
        path = following.group(1) if following else ""
    assert found == [f"tune-{number}" for number in reversed(range(120))]
    assert browser.get("/runs?before=x").status_code == 400
    assert browser.get("/runs?before=-1").status_code == 400
    assert "no older runs" in browser.get("/runs?before=1").text


def test_a_report_shows_every_op_the_gates_and_the_traffic(board: Board) -> None:
    end_run(board.ledger, "run-1")
    page = visit(board).get("/runs/run-1").text
    for words in ("faster end to end", "KL divergence", "Goodput", "To the first token", "0.93", "calls of", "74 %"):
        assert words in page
    assert f"/candidates/{KERNEL.id}" in page
    assert page.count('class="state shipped"') == page.count('class="state no_program"') == 1
    assert page.count("<table") == page.count("<caption") == page.count('class="scroll"')
    assert_harmless(page)


def test_the_home_page_says_what_the_last_run_saves_and_what_that_is_worth(tmp_path: Path) -> None:
    board = make_board(tmp_path, usd_per_device_hour=3.5)
    end_run(board.ledger, "run-1")
    savings = savings_of(report_run(board.ledger, "run-1", None))
    assert savings is not None
    page = visit(board).get("/").text
    assert f"<dd>{savings.saved_hours:.1f} h</dd>" in page
    assert "once it is live" in page
    assert f"<dd>${savings.usd(3.5):.2f}</dd>" in page
    assert "no price is set" in visit(replace(board, usd_per_device_hour=None)).get("/").text


def test_an_op_that_was_not_searched_has_no_page_to_link_to(board: Board) -> None:
    end_run(board.ledger, "run-1")
    page = visit(board).get("/runs/run-1").text
    assert "Wide" in page
    assert page.count('href="/ops/') == 1
    assert 'href="/ops/Wide"' not in page


def test_a_run_whose_kernel_was_taken_back_still_has_its_report(board: Board) -> None:
    end_run(board.ledger, "run-1")
    retract(board.ledger)
    assert visit(board).get("/runs/run-1").status_code == 200


@pytest.mark.parametrize("make", [tune, sit_exam])
def test_other_kinds_of_runs_have_their_own_reports(board: Board, make) -> None:
    make(board.ledger, "it-1")
    page = visit(board).get("/runs/it-1").text
    assert f"/candidates/{KERNEL.id}" in page
    assert_harmless(page)


def test_a_running_run_is_followed_and_can_be_paused(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    browser = visit(board)
    assert "It has said nothing yet" in browser.get("/runs/run-1").text
    board.ledger.add_progress("run-1", progress(HOSTILE, 3, HOSTILE))
    page = browser.get("/runs/run-1").text
    assert 'sse-connect="/runs/run-1/events?after=1"' in page
    assert "Pause" in page
    assert "1.50×" in page
    assert_harmless(page)
    paused = browser.get("/runs/run-1?live=off").text
    assert "sse-connect" not in paused
    assert "Go on" in paused


def test_what_a_running_run_has_found_is_shown_before_its_end(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    rank(board.ledger, "run-1")
    page = visit(board).get("/runs/run-1").text
    assert "Found so far" in page
    assert "not yet" in page
    assert "others had more to win" not in page


def test_a_stopped_run_says_since_when(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    board.ledger.add_progress("run-1", progress("Linear", 1))
    make_old(board.ledger, "run-1")
    browser = visit(board)
    page = browser.get("/runs/run-1").text
    assert "No progress since" in page
    assert "sse-connect" not in page
    assert "no progress since" in browser.get("/runs").text


def test_a_failed_run_says_why(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    RunStates(board.ledger).put_failure("run-1", f"ModelError: no model {HOSTILE}")
    browser = visit(board)
    for page in (browser.get("/runs/run-1").text, browser.get("/runs").text):
        assert "ModelError: no model &lt;script&gt;" in page
        assert 'class="state failed"' in page
        assert_harmless(page)


def test_links_lie_below_the_path_that_a_proxy_mounts_the_page_at(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    for path in ("/board/runs", "/board/runs/run-1"):
        page = visit(board, root_path="/board").get(path).text
        links = re.findall(r'(?:href|src|action|sse-connect|hx-get)="(/[^"]*)"', page)
        assert links
        assert all(found.startswith("/board/") for found in links), links


# Events


def events_of(board: Board, seen: int, most: int = 100) -> list[str]:
    entry = board.ledger.run("run-1")
    assert entry is not None

    async def gather() -> list[str]:
        found = []
        events = follow_run(
            lambda after: read_news(board.ledger, "run-1", after),
            lambda known, spent: sum_up(entry.request, entry.started_at, known, spent, datetime.now(UTC)),
            lambda live: "".join(each.progress.message for each in live.lines),
            seen,
            poll_s=0.001,
            beat_s=0.05,
        )
        async for event in events:
            found.append(event)
            if len(found) == most:
                break
        return found

    return asyncio.run(gather())


def test_a_client_that_knows_nothing_is_told_all_and_then_the_end(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    for number in range(3):
        board.ledger.add_progress("run-1", progress("Linear", number, f"[{number}]"))
    RunStates(board.ledger).put_failure("run-1", "no model")
    retry, told, ended = events_of(board, seen=0)
    assert retry == "retry: 3000\n\n"
    assert told == "event: progress\nid: 3\ndata: [2][1][0]\n\n"
    assert ended == "event: ended\ndata: failed\n\n"


def test_a_client_that_was_cut_off_is_told_only_what_it_does_not_know(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    for number in range(3):
        board.ledger.add_progress("run-1", progress("Linear", number))
    RunStates(board.ledger).put_failure("run-1", "no model")
    assert [event.split("\n")[0] for event in events_of(board, seen=3)] == ["retry: 3000", "event: ended"]
    assert "id: 3\n" in events_of(board, seen=2)[1]


def test_a_silent_run_beats(board: Board) -> None:
    board.ledger.open_run(REQUEST, "run-1")
    assert ": beat\n\n" in events_of(board, seen=0, most=3)


def test_no_text_of_others_ends_an_event() -> None:
    text = "a\nevent: ended\r\rdata: x\u2028\n\nid: 9"
    lines = write_event("progress", text, 4).split("\n")
    assert lines[:2] == ["event: progress", "id: 4"]
    assert lines[-2:] == ["", ""]
    assert all(line.startswith("data: ") for line in lines[2:-2])
    assert "\r" not in "".join(lines)


def test_events_come_in_order_while_the_run_goes_on_and_end_with_it(board: Board) -> None:
    board.ledger.open_run(TuneRequest(task_id="1", op="Linear"), "tune-1")
    board.ledger.add_progress("tune-1", progress("Linear", 1, "first of all"))
    with serve(board) as port:
        stream = open_stream(port, "tune-1")
        assert "first of all" in read_event(stream, "progress")
        board.ledger.add_progress("tune-1", progress("Linear", 2, "then another"))
        later = read_event(stream, "progress")
        assert later.index("then another") < later.index("first of all")
        tune(board.ledger, "tune-1")
        assert "ended" in read_event(stream, "ended")
        assert stream.read() == b""
        assert wait_until(lambda: board.streams.open == 0)


def test_a_client_that_leaves_gives_its_place_to_another(tmp_path: Path) -> None:
    board = make_board(tmp_path, streams=Streams(most=1))
    board.ledger.open_run(REQUEST, "run-1")
    board.ledger.add_progress("run-1", progress("Linear", 1))
    with serve(board) as port:
        stream = open_stream(port, "run-1")
        read_event(stream, "progress")
        assert board.streams.open == 1
        refused = http.client.HTTPConnection("127.0.0.1", port)
        refused.request("GET", "/runs/run-1/events")
        assert refused.getresponse().status == 503
        refused.close()
        assert "As many readers follow runs" in visit(board).get("/runs/run-1").text
        stream.close()
        assert wait_until(lambda: board.streams.open == 0)
        again = open_stream(port, "run-1", last_event_id=0)
        assert "Linear" in read_event(again, "progress")
        again.close()


def open_stream(port: int, run_id: str, last_event_id: int | None = None) -> http.client.HTTPResponse:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    headers = {} if last_event_id is None else {"Last-Event-ID": str(last_event_id)}
    connection.request("GET", f"/runs/{run_id}/events", headers=headers)
    answer = connection.getresponse()
    assert answer.status == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    return answer


def read_event(stream: http.client.HTTPResponse, name: str) -> str:
    """The next of this name."""
    block: list[str] = []
    while True:
        line = stream.readline().decode()
        assert line, "the stream ended"
        if line == "\n":
            if f"event: {name}\n" in block:
                return "".join(block)
            block = []
        else:
            block.append(line)


def wait_until(is_so) -> bool:
    for _ in range(500):
        if is_so():
            return True
        time.sleep(0.02)
    return False
