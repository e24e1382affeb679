"""axe-core finds nothing serious on any page, in either theme and width; the keyboard reaches everything."""

from typing import TYPE_CHECKING

import pytest

from leaderboard.access.tokens import TokenFile
from tests.leaderboard.browser.pages import NAMES, paths_of
from tests.leaderboard.browser.past import Past

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.leaderboard.browser.visit import Visit

_SERIOUS = ("serious", "critical")
_COMBINATIONS = [(name, width, theme) for name in NAMES for width in (1280, 390) for theme in ("light", "dark")]
_QUICK = {(name, *((1280, "dark") if place % 2 else (390, "light"))) for place, name in enumerate(NAMES)}
"""Each page once, and every width and theme with some."""


@pytest.mark.parametrize(
    ("name", "width", "theme"),
    [pytest.param(*each, marks=() if each in _QUICK else pytest.mark.slow) for each in _COMBINATIONS],
)
def test_axe_finds_nothing_serious(
    chromium: "Browser", address: str, past: Past, name: str, width: int, theme: str
) -> None:
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, address, width=width, theme=theme, ignores_policy=True) as tab:
        page = tab.go(paths_of(past)[name])
        for folded in page.locator("details").all():
            folded.evaluate("each => each.open = true")
        assert _find_serious(page) == []


def test_axe_finds_nothing_serious_in_form_and_refusal(chromium: "Browser", address: str, past: Past) -> None:
    from tests.leaderboard.browser.visit import visit

    tokens = TokenFile(past.home / "keys" / "leaderboard.json")
    tokens.create("axe")
    try:
        with visit(chromium, address, ignores_policy=True) as tab:
            page = tab.go("builds")
            assert _find_serious(page) == []
            tab.expect_refusal(403)
            page.fill("input[name=token]", "none")
            page.click("form.act button")
            page.wait_for_selector("[role=alert]")
            assert _find_serious(page) == []
            assert _find_serious(tab.go("nowhere", refused=404)) == []
    finally:
        tokens.remove("axe")


def _find_serious(page: "Page") -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
    return [
        f"{each['impact']} {each['id']}: {[node['target'] for node in each['nodes']][:3]} "
        f"{each['nodes'][0]['failureSummary']}"
        for each in found
        if each["impact"] in _SERIOUS
    ]


def test_first_key_skips_to_the_content(tab: "Visit") -> None:
    page = tab.go("")
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to content"
    place = skip.bounding_box()
    assert place is not None
    assert place["x"] >= 0
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "main"


def test_tab_reaches_filters_and_links_and_shows_where_it_is(tab: "Visit") -> None:
    page = tab.go("")
    reached = []
    for _ in range(40):
        page.keyboard.press("Tab")
        reached.append(_focused(page))
        assert page.evaluate(
            "getComputedStyle(document.activeElement).outlineStyle != 'none' || document.activeElement.matches('.skip')"
        ), reached[-1]
    assert reached.index("select[name=state]") < reached.index("select[name=sort]") < reached.index("th a")
    assert "div.scroll" in reached


def _focused(page: "Page") -> str:
    words: str = page.evaluate(
        """() => { const at = document.activeElement;
        if (at.tagName == "SELECT") return `select[name=${at.name}]`;
        if (at.closest("tbody th")) return "th a";
        return at.tagName.toLowerCase() + (at.className ? `.${at.className}` : ""); }"""
    )
    return words
