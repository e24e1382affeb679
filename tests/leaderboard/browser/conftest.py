"""One server over a past that has everything, one over the same past with hostile texts, and a real browser."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests.leaderboard.browser.chromium import NoChromium, start_chromium
from tests.leaderboard.browser.past import Past, make_past
from tests.leaderboard.browser.server import serve
from tests.leaderboard.browser.texts import hostile

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from tests.leaderboard.browser.visit import Visit


@pytest.fixture(scope="session")
def past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return make_past(tmp_path_factory.mktemp("past"))


@pytest.fixture(scope="session")
def hostile_past(tmp_path_factory: pytest.TempPathFactory) -> Past:
    return make_past(tmp_path_factory.mktemp("hostile"), hostile)


@pytest.fixture(scope="module")
def chromium() -> Iterator["Browser"]:
    """Of a module alone: tests elsewhere have event loops of their own."""
    try:
        with start_chromium() as browser:
            yield browser
    except NoChromium as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def address(past: Past) -> Iterator[str]:
    with serve(past.home, {"COMPILER_AGENT_DEVICE_USD_PER_HOUR": "2.50"}) as address:
        yield address


@pytest.fixture(scope="session")
def hostile_address(hostile_past: Past) -> Iterator[str]:
    with serve(hostile_past.home) as address:
        yield address


@pytest.fixture
def tab(chromium: "Browser", address: str) -> Iterator["Visit"]:
    """Fails the test if anything was wrong with any page that it opened."""
    from tests.leaderboard.browser.visit import visit

    with visit(chromium, address) as opened:
        yield opened
        assert opened.faults() == []
