"""Texts that try to be scripts, in every record that holds texts: each page shows them, and runs none."""

import sqlite3
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browser.pages import NAMES, paths_of
from tests.leaderboard.browser.past import Past
from tests.leaderboard.browser.texts import is_hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser

_OURS = {
    "digests and ids": (
        "after_candidate_id artifact base_run build build_id candidate candidate_id candidate_ids files functions graph"
        " head id parents previous request_digest run_id task task_id task_ids trace_digest transcript win"
    ),
    "words of a closed list, or of a pattern": (
        "action architectures best_baseline decision dtype element_type engine event evidence failures kind language"
        " last_stage level name outcome reason role shape stage state workload axes"
    ),
    "figures that gates and records write by themselves": "bound figure changes signature stop",
    "times": "at",
}
"""Names of fields whose texts the program writes by its own rules, as this ledger has them."""


@pytest.mark.parametrize("name", [name for name in NAMES if name != "compare-form"])
def test_page_runs_nothing_of_them_and_fits_a_phone(
    chromium: "Browser", hostile_address: str, hostile_past: Past, name: str
) -> None:
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, hostile_address) as tab:
        page = tab.go(paths_of(hostile_past)[name])
        for folded in page.locator("details").all():
            folded.evaluate("each => each.open = true")
        assert is_hostile(page.content())
        for element in ("main script", "main img", "main svg[onload]", "main [onerror]", "a[href^='javascript' i]"):
            assert page.locator(element).count() == 0, element
        assert "49" not in page.locator("h1").first.inner_text()
        page.set_viewport_size({"width": 390, "height": 800})
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        page.wait_for_timeout(50)
        assert tab.faults() == []


def test_filters_by_hostile_words_find_their_kernels(
    chromium: "Browser", hostile_address: str, hostile_past: Past
) -> None:
    from playwright.sync_api import expect

    from tests.leaderboard.browser.visit import visit

    with visit(chromium, hostile_address) as tab:
        page = tab.go("")
        every = page.locator("#found tbody tr").count()
        page.select_option("select[name=op]", hostile_past.op)
        expect(page.locator("#found tbody tr")).not_to_have_count(every)
        assert page.locator("#found tbody tr").count() > 0
        page.locator("#found tbody th a:text-is('op')").first.click()
        page.wait_for_url("**/ops/**")
        assert hostile_past.op[:15] in page.locator("h1").inner_text()
        assert tab.faults() == []


def test_what_a_reader_types_is_shown_and_not_run(chromium: "Browser", hostile_address: str) -> None:
    from tests.leaderboard.browser.visit import visit

    attack = "%22%3E%3Cimg%20src%3Dx%20onerror%3Dwindow.pwned%3D1%3E"
    with visit(chromium, hostile_address) as tab:
        for path in (f"?op={attack}", f"?agent={attack}&state=all", f"compare?a={attack}"):
            page = tab.go(path)
            assert page.locator("img").count() == 0
        for path in (f"candidates/{attack}", f"runs/{attack}", f"builds/{attack}", f"ops/{attack}"):
            page = tab.go(path, refused=404)
            assert page.locator("img").count() == 0
        tab.go(f"?sort={attack}", refused=400)
        assert tab.faults() == []


def test_no_text_of_any_record_was_forgotten(hostile_past: Past) -> None:
    """That is, the past that the tests above show attacks with every field that it could."""
    ours = {name for names in _OURS.values() for name in names.split()}
    harmless = sorted({(table, name) for table, name, text in _texts(hostile_past) if not is_hostile(text)})
    assert [each for each in harmless if each[1] not in ours] == []


def _texts(past: Past) -> Iterator[tuple[str, str, str]]:
    """Table, field, text."""
    import json

    with sqlite3.connect(past.home / "ledger.sqlite") as ledger:
        tables = [name for (name,) in ledger.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            columns = [column for _, column, *_ in ledger.execute(f"PRAGMA table_info({table})")]
            if "record" in columns:
                for (record,) in ledger.execute(f"SELECT record FROM {table}"):
                    yield from ((table, name, text) for name, text in _leaves("", json.loads(record)))


def _leaves(name: str, value: object) -> Iterator[tuple[str, str]]:
    match value:
        case str() if value:
            yield name, value
        case list():
            for each in value:
                yield from _leaves(name, each)
        case dict():
            for key, each in value.items():
                yield from _leaves(key, each)
