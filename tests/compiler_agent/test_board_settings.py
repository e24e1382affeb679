from pathlib import Path

import pytest

from compiler_agent.board_settings import read_board_settings
from compiler_agent.outcome import UserFault

HOME = Path("/home-of-tests")


def test_nothing_needs_to_be_set():
    settings = read_board_settings(HOME, {})
    assert (settings.public_url, settings.usd_per_device_hour) == (None, None)
    assert settings.counters == HOME / "counters"


def test_a_public_address_may_have_a_path():
    settings = read_board_settings(HOME, {"COMPILER_AGENT_LEADERBOARD_URL": "https://board.example.org/wins/"})
    assert settings.public_url is not None
    assert (settings.public_url.netloc, settings.public_url.path) == ("board.example.org", "/wins")


@pytest.mark.parametrize(
    "url",
    [
        "board.example.org",
        "ftp://x",
        "https://",
        "https://a/?b",
        "https://u:p@a",
        "http://a:x",
        "https://a//evil.example",
    ],
)
def test_refuses_an_address_that_is_none(url):
    with pytest.raises(UserFault, match="COMPILER_AGENT_LEADERBOARD_URL"):
        read_board_settings(HOME, {"COMPILER_AGENT_LEADERBOARD_URL": url})


@pytest.mark.parametrize(
    ("url", "netloc"),
    [
        ("https://board.example.org:443/x", "board.example.org"),
        ("http://board.example.org:80", "board.example.org"),
        ("http://[::1]:80", "[::1]"),
        ("https://board.example.org:8443", "board.example.org:8443"),
        ("https://board.example.org:80", "board.example.org:80"),
    ],
)
def test_a_port_that_browsers_leave_out_is_left_out(url, netloc):
    settings = read_board_settings(HOME, {"COMPILER_AGENT_LEADERBOARD_URL": url})
    assert settings.public_url is not None
    assert settings.public_url.netloc == netloc


@pytest.mark.parametrize("price", ["free", "0", "-1", "nan", "inf"])
def test_refuses_a_price_that_is_none(price):
    with pytest.raises(UserFault, match="COMPILER_AGENT_DEVICE_USD_PER_HOUR"):
        read_board_settings(HOME, {"COMPILER_AGENT_DEVICE_USD_PER_HOUR": price})
    assert read_board_settings(HOME, {"COMPILER_AGENT_DEVICE_USD_PER_HOUR": "2.5"}).usd_per_device_hour == 2.5
