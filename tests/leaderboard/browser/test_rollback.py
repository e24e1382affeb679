"""Rolling back on the page of builds: only with a token, only from a form that is not stale."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from candidates.serving_build.builds import BuildStore
from leaderboard.access.tokens import TokenFile
from tests.leaderboard.browser.past import Past

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from tests.leaderboard.browser.visit import Visit


@pytest.fixture
def token(past: Past) -> Iterator[str]:
    tokens = TokenFile(past.home / "keys" / "leaderboard.json")
    yield tokens.create("ann")
    tokens.remove("ann")


@pytest.fixture(autouse=True)
def what_is_live_stays(past: Past) -> Iterator[None]:
    """For the tests after this one."""
    builds = BuildStore(past.home)
    history = Path(past.home / "builds" / "approvals.jsonl")
    before = history.read_text()
    yield
    if builds.current() != past.live_build:
        builds.approve(past.live_build, by="test")
    history.write_text(before)


def test_there_is_no_form_without_tokens(tab: "Visit") -> None:
    page = tab.go("builds")
    assert page.locator("form.act").count() == 0
    assert "token new NAME" in page.locator("main").inner_text()


def test_right_token_rolls_back_and_the_page_says_who_did(tab: "Visit", past: Past, token: str) -> None:
    page = tab.go("builds")
    _roll_back(page, token)
    page.wait_for_url("**/builds")
    done = page.locator(".note.good").inner_text()
    assert past.build_before[:12] in done
    assert "ann" in done
    assert BuildStore(past.home).current() == past.build_before
    assert token not in page.content()
    page.reload()
    assert BuildStore(past.home).current() == past.build_before


def test_wrong_token_changes_nothing(tab: "Visit", past: Past, token: str) -> None:
    page = tab.go("builds")
    tab.expect_refusal(403)
    _roll_back(page, f"{token}x")
    assert "none of this leaderboard's" in page.locator("[role=alert]").inner_text()
    assert token not in page.content()
    assert BuildStore(past.home).current() == past.live_build


def test_form_asks_for_a_token_before_it_is_sent(tab: "Visit", past: Past, token: str) -> None:
    page = tab.go("builds")
    page.click("form.act button")
    assert page.locator("input[name=token]:invalid").count() == 1
    assert BuildStore(past.home).current() == past.live_build


def test_form_of_another_process_is_refused(tab: "Visit", past: Past, token: str) -> None:
    page = tab.go("builds")
    page.eval_on_selector("input[name=stamp]", "field => field.value = '0'.repeat(64)")
    tab.expect_refusal(403)
    _roll_back(page, token)
    assert "the form is too old" in page.locator("[role=alert]").inner_text()
    assert BuildStore(past.home).current() == past.live_build


def test_stale_form_does_not_roll_back_what_is_live_by_now(tab: "Visit", past: Past, token: str) -> None:
    page = tab.go("builds")
    BuildStore(past.home).approve(past.build_before, by="bob")
    tab.expect_refusal(409)
    _roll_back(page, token)
    assert "is live by now" in page.locator("[role=alert]").inner_text()
    assert BuildStore(past.home).current() == past.build_before


def _roll_back(page: "Page", token: str) -> None:
    page.fill("input[name=token]", token)
    page.click("form.act button")
    page.wait_for_load_state()
