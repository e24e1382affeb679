"""axe-core finds nothing serious on any page, in either theme and width; the keyboard reaches everything."""

from typing import TYPE_CHECKING

import pytest

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
    from axe_playwright_python.sync_playwright import Axe

    from tests.leaderboard.browser.visit import visit

    with visit(chromium, address, width=width, theme=theme, ignores_policy=True) as tab:
        page = tab.go(paths_of(past)[name])
        for folded in page.locator("details").all():
            folded.evaluate("each => each.open = true")
        found = Axe().run(page, options={"resultTypes": ["violations"]}).response["violations"]
        told = [
            f"{each['impact']} {each['id']}: {[node['target'] for node in each['nodes']][:3]} "
            f"{each['nodes'][0]['failureSummary']}"
            for each in found
            if each["impact"] in _SERIOUS
        ]
        assert told == []


def test_first_key_skips_to_the_content(tab: "Visit") -> None:
    page = tab.go("")
    page.keyboard.press("Tab")
    skip = page.locator(":focus")
    assert skip.inner_text() == "Skip to content"
    assert skip.bounding_box() is not None
    assert (skip.bounding_box() or {}).get("x", -1) >= 0
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
