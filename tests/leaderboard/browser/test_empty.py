"""A home in which nothing has happened yet: every list says so, and how to begin."""

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browser.server import serve

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.mark.slow
def test_lists_say_how_to_begin(chromium: "Browser", tmp_path: Path, subtests: pytest.Subtests) -> None:
    from tests.leaderboard.browser.visit import visit

    with serve(tmp_path) as address, visit(chromium, address) as tab:
        for path, words in (
            ("", "No run of a trace has ended yet"),
            ("?state=all", "No kernel is like that"),
            ("runs", "There has been no run yet"),
            ("builds", "There is no build yet"),
        ):
            with subtests.test(path):
                assert words in tab.go(path).locator("main").inner_text()
        assert tab.faults() == []
