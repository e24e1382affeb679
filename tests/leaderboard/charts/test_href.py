"""Addresses in charts."""

import pytest

from leaderboard.charts.href import check_href


@pytest.mark.parametrize("href", ["/ops/rms_norm", "?op=a&state=b", "#n", "runs/3?x=1:2", "/t/a:b/c%20d", "../a", None])
def test_takes_relative_addresses(href: str | None) -> None:
    check_href(href)


@pytest.mark.parametrize(
    "href",
    [
        "javascript:alert(1)",
        "JaVaScRiPt:alert(1)",
        " javascript:alert(1)",
        "java\tscript:alert(1)",
        "data:text/html,x",
        "https://example.org/",
        "//example.org/",
        "/\\example.org",
        "\\\\example.org",
        "/a b",
        '/"onload=x',
        "/<x>",
        "/é",
        "/a\n",
        "/" + "a" * 200,
        "/" + "&" * 40,
    ],
)
def test_refuses_schemes_hosts_and_unsafe_characters(href: str) -> None:
    with pytest.raises(ValueError, match="not a relative address"):
        check_href(href)
