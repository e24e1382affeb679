"""The colours of source and differences can be read in both schemes."""

import re

import pytest

from leaderboard.pages.render import STATIC
from tests.leaderboard.charts.test_charts_css import contrast


def colours(scheme: int) -> dict[str, str]:
    """0: light, 1: dark; of both sheets."""
    found: dict[str, str] = {}
    for name in ("style.css", "source.css"):
        blocks = re.findall(r":root \{(.*?)\}", (STATIC / name).read_text(encoding="utf-8"), re.S)
        found |= dict(re.findall(r"(--[\w-]+): (#[0-9a-f]{6})", blocks[scheme]))
    return found


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_text_stands_out_from_what_lies_behind_it(scheme):
    known = colours(scheme)
    code = [name for name in known if name.startswith("--code-")]
    assert len(code) == 5
    for name in (*code, "--text", "--quiet"):
        assert contrast(known[name], known["--raised"]) >= 4.5, name
    for behind in ("--added", "--removed"):
        assert contrast(known["--text"], known[behind]) >= 4.5, behind
    assert contrast(known["--quiet"], known["--plain-back"]) >= 4.5
    for name in ("--good", "--bad", "--warn"):
        assert contrast(known[name], known["--raised"]) >= 4.5, name
