"""`python -m tests.leaderboard.browser.screenshots [FOLDER]`: pictures of every page over a made-up past.

Into docs/screenshots, as `<page>-<width>-<theme>.png`: at most 1600 high, what is below is cut off.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from tests.leaderboard.browser.chromium import start_chromium
from tests.leaderboard.browser.pages import paths_of
from tests.leaderboard.browser.past import make_past
from tests.leaderboard.browser.server import ROOT, serve
from tests.leaderboard.browser.small_png import shrink

_PAGES = (
    "home",
    "op",
    "candidate",
    "compare",
    "transcript",
    "runs",
    "run",
    "run-running",
    "builds",
    "build",
    "build-diff",
)
_MOST_HIGH = 1600


def take_screenshots(folder: Path) -> None:
    from tests.leaderboard.browser.visit import visit

    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        past = make_past(Path(temporary))
        shutil.rmtree(past.home / "builds" / past.refused_build)  # it would look as if that were usual
        with serve(past.home, {"COMPILER_AGENT_DEVICE_USD_PER_HOUR": "2.50"}) as address, start_chromium() as browser:
            blank = browser.new_page()
            for width in (1280, 390):
                for theme in ("light", "dark"):
                    with visit(browser, address, width=width, theme=theme) as tab:
                        for name in _PAGES:
                            # The events of a run that goes on would never end.
                            page = tab.go(paths_of(past)[name] + ("?live=off" if name == "run-running" else ""))
                            height = min(page.evaluate("document.documentElement.scrollHeight"), _MOST_HIGH)
                            clip = {"x": 0, "y": 0, "width": width, "height": height}
                            picture = page.screenshot(full_page=True, clip=clip)  # type: ignore[arg-type]
                            (folder / f"{name}-{width}-{theme}.png").write_bytes(shrink(blank, picture))


if __name__ == "__main__":
    take_screenshots(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "docs" / "screenshots")
