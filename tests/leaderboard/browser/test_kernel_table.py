"""Filters, order and pages of the table of kernels, with scripts and without."""

from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

from tests.leaderboard.browser.past import Past

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.leaderboard.browser.visit import Visit


def test_filter_changes_table_and_address_without_loading_the_page(tab: "Visit") -> None:
    from playwright.sync_api import expect

    page = tab.go("")
    page.evaluate("window.kept = true")
    before = _rows(page)
    page.select_option("select[name=state]", "rejected")
    expect(page.locator("#found .state").first).to_have_text("rejected")
    assert _query(page)["state"] == ["rejected"]
    assert page.evaluate("window.kept") is True
    assert _rows(page) != before
    assert set(_states(page)) == {"rejected"}


def test_back_and_forward_go_through_filters(tab: "Visit") -> None:
    from playwright.sync_api import expect

    page = tab.go("")
    before = _rows(page)
    page.select_option("select[name=op]", "LlamaMLP.decode")
    page.wait_for_url("**op=LlamaMLP.decode**")
    expect(page.locator("#found tbody tr")).to_have_count(2)
    filtered = _rows(page)
    page.go_back()
    expect(page.locator("#found tbody tr")).to_have_count(len(before))
    assert _rows(page) == before
    assert "op" not in _query(page)
    assert page.locator("select[name=op]").input_value() == ""
    page.go_forward()
    expect(page.locator("#found tbody tr")).to_have_count(len(filtered))
    assert _rows(page) == filtered


def test_filtered_address_shows_the_same_when_it_is_opened(tab: "Visit", past: Past) -> None:
    from playwright.sync_api import expect

    page = tab.go("")
    every = len(_rows(page))
    page.select_option("select[name=device]", past.device_id)
    page.wait_for_url("**device=**")
    expect(page.locator("#found tbody tr")).not_to_have_count(every)
    found = _rows(page)
    page = tab.go(page.url.removeprefix(tab.address))
    assert _rows(page) == found
    assert page.locator("select[name=device]").input_value() == past.device_id


def test_filters_are_a_plain_form_without_scripts(chromium: "Browser", address: str) -> None:
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, address, has_scripts=False) as tab:
        page = tab.go("")
        page.select_option("select[name=state]", "rejected")
        page.select_option("select[name=language]", "cpp")
        page.click("form.filters button")
        page.wait_for_url("**state=rejected**")
        assert _query(page)["language"] == ["cpp"]
        assert set(page.locator("#found .state").all_inner_texts()) == {"rejected"}


def test_headers_order_the_table(tab: "Visit") -> None:
    page = tab.go("?state=all")
    page.click("#found thead a:has-text('Speedup')")
    page.wait_for_url("**sort=speedup**")
    assert _query(page) == {"state": ["all"], "sort": ["speedup"]}
    assert page.locator("#found th[aria-sort=descending]").inner_text().startswith("Speedup")
    speedups = [float(words.rstrip("×")) for words in _column(page, "Speedup") if words != "—"]
    assert len(speedups) > 10
    assert speedups == sorted(speedups, reverse=True)


def test_pages_of_the_table_hold_each_kernel_once(tab: "Visit") -> None:
    page = tab.go("?state=all")
    seen = []
    for _ in range(5):
        seen += _rows(page)
        following = page.locator("a[rel=next]")
        if not following.count():
            break
        following.click()
        page.wait_for_load_state()
    assert len(seen) > 50
    assert len(seen) == len(set(seen))


def test_no_match_says_so_and_how_to_get_back(tab: "Visit") -> None:
    page = tab.go("?op=nothing")
    assert "No kernel is like that" in page.locator("#found").inner_text()
    page.click("form.filters a:has-text('Clear')")
    page.wait_for_url(tab.address)
    assert _rows(page)


def _rows(page: "Page") -> list[str]:
    """Links to the kernels."""
    return [row.get_attribute("href") or "" for row in page.locator("#found tbody th a:first-child").all()]


def _states(page: "Page") -> list[str]:
    return page.locator("#found tbody .state").all_inner_texts()


def _column(page: "Page", header: str) -> list[str]:
    headers = page.locator("#found thead th").all_inner_texts()
    place = next(number for number, words in enumerate(headers) if words.startswith(header))
    return [row.locator("th, td").nth(place).inner_text() for row in page.locator("#found tbody tr").all()]


def _query(page: "Page") -> dict[str, list[str]]:
    return parse_qs(urlsplit(page.url).query)
