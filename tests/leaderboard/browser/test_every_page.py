"""Each page in a real browser: nothing to complain of, nothing wider than the window, nothing lost in print."""

from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browser.pages import NAMES, paths_of
from tests.leaderboard.browser.past import Past

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.leaderboard.browser.visit import Visit


@pytest.mark.parametrize("name", NAMES)
def test_gives_no_cause_to_complain_and_fits_a_phone(tab: "Visit", past: Past, name: str) -> None:
    page = tab.go(paths_of(past)[name])
    assert page.locator("main h1").count() == 1
    assert page.title().endswith("Compiler Agent")
    assert page.locator("main").inner_text().strip()
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390, _widest(tab)


def test_tables_scroll_within_their_region(chromium: "Browser", address: str) -> None:
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, address, width=390) as tab:
        region = tab.go("").locator(".scroll").first
        region.evaluate("region => region.scrollLeft = 10000")
        assert region.evaluate("region => region.scrollLeft") > 100


@pytest.mark.parametrize("name", ["home", "candidate", "run", "build"])
def test_prints_whole_tables_and_no_controls(tab: "Visit", past: Past, name: str) -> None:
    page = tab.go(paths_of(past)[name])
    page.emulate_media(media="print", color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert page.locator("header.top nav").is_hidden()
    assert all(form.is_hidden() for form in page.locator("form").all())
    assert page.locator(".scroll").first.evaluate("region => getComputedStyle(region).overflowX") == "visible"
    assert page.pdf().startswith(b"%PDF")


def test_home_names_the_runs_that_go_on_and_no_others(tab: "Visit", past: Past) -> None:
    notes = tab.go("").locator(".note").all_inner_texts()
    assert any(past.running in note for note in notes)
    assert not any(past.failed in note for note in notes)


def test_home_does_not_wait_for_a_build_that_is_live(tab: "Visit") -> None:
    assert "once it is live" not in tab.go("").locator(".headline").inner_text()


@pytest.mark.parametrize("name", ["run", "run-tuned", "run-exam", "run-running"])
def test_run_says_what_was_asked_for(tab: "Visit", past: Past, name: str) -> None:
    asked = tab.go(paths_of(past)[name]).locator("section:has(#asked)").inner_text()
    assert "agents" in asked or "endpoint" in asked


def test_op_shows_what_a_run_found_though_people_judged_later(tab: "Visit", past: Past) -> None:
    page = tab.go(paths_of(past)["op"])
    assert "2.77×" in page.locator(".headline").inner_text()
    assert page.locator(".headline .state").first.inner_text() == "live"


def test_says_what_is_not_there(tab: "Visit") -> None:
    page = tab.go("candidates/ffff", refused=404)
    assert "Not found" in page.locator("h1").inner_text()
    page = tab.go("?state=nonsense", refused=400)
    assert "no state nonsense" in page.locator("main").inner_text()
    tab.go("nowhere", refused=404)


def _widest(tab: "Visit") -> str:
    found: str = tab.page.evaluate(
        """() => [...document.querySelectorAll("main *")]
        .filter(each => !each.closest(".scroll") && each.getBoundingClientRect().right > innerWidth)
        .slice(0, 5).map(each => `${each.tagName}.${each.className}: ${each.textContent.slice(0, 40)}`).join("; ")"""
    )
    return found
