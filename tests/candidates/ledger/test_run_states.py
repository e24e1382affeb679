"""Whether a run has ended, failed, goes on, or says nothing any more."""

from datetime import UTC, datetime, timedelta

import pytest

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import SILENT_S, Ended, Failed, Running, RunStates, Stopped
from candidates.run import Progress, RunRequest, Stage, TuneReport, TuneRequest

RANKING = Progress(stage=Stage.RANKING, message="ranked")
SEARCH = Progress(stage=Stage.SEARCH, op="Linear", tried=1, message="screened")


@pytest.fixture
def ledger(ledger_url: str) -> Ledger:
    ledger = Ledger(ledger_url)
    ledger.open_run(RunRequest(traces=("t",), trace_digest="0", model="tiny"), "run-1")
    return ledger


def state_of(ledger: Ledger, run_id: str = "run-1", later_s: float = 0.0):
    return RunStates(ledger).of(ledger.runs(), datetime.now(UTC) + timedelta(seconds=later_s))[run_id]


def test_a_run_that_has_begun_is_running(ledger: Ledger) -> None:
    assert state_of(ledger) == Running(last=None)
    ledger.add_progress("run-1", RANKING)
    ledger.add_progress("run-1", SEARCH)
    state = state_of(ledger)
    assert isinstance(state, Running)
    assert state.last is not None
    assert state.last.progress == SEARCH


def test_a_run_that_says_nothing_for_long_has_stopped(ledger: Ledger) -> None:
    run = ledger.run("run-1")
    assert run is not None
    assert state_of(ledger, later_s=SILENT_S + 5) == Stopped(since=run.started_at)
    ledger.add_progress("run-1", RANKING)
    (last,) = ledger.progress_after("run-1", 0)
    assert state_of(ledger, later_s=SILENT_S + 5) == Stopped(since=last.recorded_at)


def test_a_failure_stands_until_the_run_is_gone_on_with(ledger: Ledger) -> None:
    states = RunStates(ledger)
    states.put_failure("run-1", "no model at /models/tiny")
    failed = state_of(ledger, later_s=10 * SILENT_S)
    assert isinstance(failed, Failed)
    assert failed.message == "no model at /models/tiny"
    ledger.add_progress("run-1", RANKING)
    assert isinstance(state_of(ledger), Running)
    states.put_failure("run-1", "the disk is full")
    states.put_failure("run-1", "the disk is full still")
    again = state_of(ledger)
    assert isinstance(again, Failed)
    assert again.message == "the disk is full still"


def test_an_ended_run_has_ended_whatever_was_before(ledger: Ledger) -> None:
    ledger.open_run(TuneRequest(task_id="1", op="Linear"), "tune-1")
    RunStates(ledger).put_failure("tune-1", "once")
    ledger.end_run(report_of("tune-1"))
    assert isinstance(state_of(ledger, "tune-1"), Ended)
    assert isinstance(state_of(ledger, "run-1"), Running)


def report_of(run_id: str) -> TuneReport:
    return TuneReport(
        run_id=run_id,
        task="1",
        op="Linear",
        decision="lost",
        candidate=None,
        best_baseline=None,
        speedup_over_best=None,
        interval=None,
        share_of_floor=None,
        tried=1,
        reason="slower",
        stop_reason="budget",
        spend_usd=0.0,
        spend_tokens=0,
        budget_stops=(),
        wall_s=1.0,
    )
