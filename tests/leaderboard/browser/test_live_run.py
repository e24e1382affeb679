"""A run that goes on while its page is open: what the ledger is told appears by itself, and so does the report."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from candidates.measurement import Interval
from candidates.run import Progress, Stage, TuneReport, TuneRequest
from tests.leaderboard.browser.past import Past

if TYPE_CHECKING:
    from tests.leaderboard.browser.visit import Visit


@pytest.fixture
def run_id(past: Past, request: pytest.FixtureRequest) -> Iterator[str]:
    """Of a run that has begun; it has ended when the test has."""
    ledger, run_id = past.ledger, f"tune-{request.node.name[:40]}"
    ledger.open_run(TuneRequest(task_id="0" * 64, op="Twice", search_s=float(len(run_id))), run_id)
    yield run_id
    if ledger.report(run_id) is None:
        ledger.end_run(_report(run_id))


def test_progress_appears_as_it_is_made(tab: "Visit", past: Past, run_id: str) -> None:
    page = tab.go(f"runs/{run_id}")
    assert "It has said nothing yet" in page.locator("#live").inner_text()
    for tried in (1, 2, 3):
        _say(past, run_id, tried)
        page.wait_for_selector(f"#live td:has-text('screened as number {tried}')")
    page.wait_for_selector("#live [role=status]:has-text('search: Twice')", state="attached")
    assert "1.30×" in page.locator("#live dl").inner_text()
    assert any(url.startswith(f"{tab.address}runs/{run_id}/events") for url in tab.requested)


def test_end_of_the_run_brings_the_report(tab: "Visit", past: Past, run_id: str) -> None:
    page = tab.go(f"runs/{run_id}")
    _say(past, run_id, 1)
    page.wait_for_selector("#live td:has-text('screened as number 1')")
    past.ledger.end_run(_report(run_id))
    page.wait_for_selector("h1 .state.ended")
    assert page.locator("#live").count() == 0
    assert page.locator("main").count() == 1
    assert "2.10×" in page.locator("main").inner_text()
    asked = len(tab.requested)
    page.wait_for_timeout(3500)  # longer than a browser waits before it connects anew
    assert not any("/events" in url for url in tab.requested[asked:])


def test_paused_page_stays_as_it_is_until_it_goes_on(tab: "Visit", past: Past, run_id: str) -> None:
    page = tab.go(f"runs/{run_id}")
    page.click("#live a:has-text('Pause')")
    page.wait_for_url("**live=off**")
    asked = len(tab.requested)
    _say(past, run_id, 1)
    page.wait_for_timeout(1500)
    assert "screened as number 1" not in page.locator("#live").inner_text()
    assert not any("/events" in url for url in tab.requested[asked:])
    page.click("#live a:has-text('Go on')")
    page.wait_for_selector("#live td:has-text('screened as number 1')")
    _say(past, run_id, 2)
    page.wait_for_selector("#live td:has-text('screened as number 2')")


def test_open_details_and_focus_outside_survive_progress(tab: "Visit", past: Past, run_id: str) -> None:
    page = tab.go(f"runs/{run_id}")
    page.focus("header.top nav a:last-child")
    _say(past, run_id, 1)
    page.wait_for_selector("#live td:has-text('screened as number 1')")
    assert page.locator(":focus").inner_text() == "Builds"


def _say(past: Past, run_id: str, tried: int) -> None:
    message = f"screened as number {tried}"
    progress = Progress(stage=Stage.SEARCH, op="Twice", tried=tried, best_speedup=1.0 + tried / 10, message=message)
    past.ledger.add_progress(run_id, progress)


def _report(run_id: str) -> TuneReport:
    return TuneReport(
        run_id=run_id,
        task="0" * 64,
        op="Twice",
        decision="won",
        candidate=None,
        best_baseline=None,
        speedup_over_best=2.1,
        interval=Interval(2.0, 2.2),
        share_of_floor=None,
        tried=3,
        reason="budget: time is spent",
        stop_reason="budget: time is spent",
        spend_usd=0.0,
        spend_tokens=0,
        budget_stops=(),
        wall_s=12.0,
    )
