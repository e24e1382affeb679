"""start_chromium: the browser that this machine has; none is downloaded."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from playwright.sync_api import Browser


class NoChromium(Exception):
    """There is none here, or nothing to drive it with."""


@contextmanager
def start_chromium() -> Iterator["Browser"]:
    """Raises NoChromium. While it runs no other event loop can run in this thread."""
    program = shutil.which("chromium") or shutil.which("google-chrome")
    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        raise NoChromium("no Chromium on this machine: playwright is not installed") from error
    if program is None:
        raise NoChromium("no Chromium on this machine: neither chromium nor google-chrome is on PATH")
    with sync_playwright() as playwright:
        # As root Chromium has no sandbox of its own.
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()
