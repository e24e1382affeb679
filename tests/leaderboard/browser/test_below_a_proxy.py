"""Mounted by a proxy below a path that it strips: links, files, forms and events stay below it."""

import shutil
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from candidates.run import Progress, Stage
from candidates.serving_build.builds import BuildStore
from leaderboard.access.tokens import TokenFile
from tests.leaderboard.browser.pages import paths_of
from tests.leaderboard.browser.past import Past
from tests.leaderboard.browser.server import serve
from tests.leaderboard.browser.stripping_proxy import Proxy, proxy_below

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.leaderboard.browser.visit import Visit

PREFIX = "/serving/wins"


@pytest.fixture(scope="module")
def own_past(past: Past, tmp_path_factory: pytest.TempPathFactory) -> Past:
    home = tmp_path_factory.mktemp("below") / "home"
    shutil.copytree(past.home, home, symlinks=True)
    return replace(past, home=home)


@pytest.fixture(scope="module")
def proxy(own_past: Past) -> Iterator[Proxy]:
    with (
        proxy_below(PREFIX) as proxy,
        serve(own_past.home, {"COMPILER_AGENT_LEADERBOARD_URL": proxy.address}) as upstream,
    ):
        proxy.upstream = upstream
        yield proxy


@pytest.fixture
def tab(chromium: "Browser", proxy: Proxy) -> Iterator["Visit"]:
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, f"{proxy.address}/") as opened:
        yield opened
        assert opened.faults() == []
        assert proxy.outside == []
        assert all(url.startswith(f"{proxy.address}/") for url in opened.requested)


def test_all_links_and_files_are_below_the_prefix(tab: "Visit", own_past: Past) -> None:
    for path in paths_of(own_past).values():
        page = tab.go(path)
        named = "[...document.querySelectorAll('{0}')].map(each => each.getAttribute('{1}')).filter(Boolean)"
        targets = page.evaluate(named.format("[href]", "href")) + page.evaluate(named.format("[src]", "src"))
        targets += page.evaluate(named.format("form", "action")) + page.evaluate(named.format("[hx-get]", "hx-get"))
        ours = [target for target in targets if not target.startswith(("#", "https://forge.example.org/"))]
        assert ours
        assert [target for target in ours if not target.startswith((f"{PREFIX}/", f"{tab.address}"))] == []


def test_filters_work_below_the_prefix(tab: "Visit") -> None:
    page = tab.go("")
    page.select_option("select[name=state]", "rejected")
    page.wait_for_url(f"{tab.address}?**state=rejected**")
    page.click("#found thead a:has-text('Age')")
    page.wait_for_url("**sort=age**")
    page.locator("#found tbody th a").first.click()
    page.wait_for_url(f"{tab.address}candidates/**")


def test_events_come_through(tab: "Visit", own_past: Past) -> None:
    page = tab.go(f"runs/{own_past.running}")
    progress = Progress(
        stage=Stage.SEARCH, op="LlamaMLP.prefill", tried=4, best_speedup=2.4, message="through the proxy"
    )
    own_past.ledger.add_progress(own_past.running, progress)
    page.wait_for_selector("#live td:has-text('through the proxy')")


def test_form_acts_below_the_prefix(tab: "Visit", own_past: Past) -> None:
    token = TokenFile(own_past.home / "keys" / "leaderboard.json").create("ann")
    page = tab.go("builds")
    page.fill("input[name=token]", token)
    page.click("form.act button")
    page.wait_for_selector(".note.good")
    assert page.url == f"{tab.address}builds"
    assert BuildStore(own_past.home).current() == own_past.build_before


def test_feed_names_the_address_that_readers_know(tab: "Visit", proxy: Proxy) -> None:
    answer = tab.page.request.get(f"{proxy.address}/feed.atom")
    assert answer.ok
    assert f"{proxy.address}/candidates/" in answer.text()
