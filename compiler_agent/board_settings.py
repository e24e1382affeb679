"""BoardSettings: how readers reach the leaderboard, and what it is told, from the environment."""

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

from compiler_agent.outcome import UserFault

_HOST, _PORT, _URL, _PRICE, _COUNTERS = (
    "COMPILER_AGENT_LEADERBOARD_HOST",
    "COMPILER_AGENT_LEADERBOARD_PORT",
    "COMPILER_AGENT_LEADERBOARD_URL",
    "COMPILER_AGENT_DEVICE_USD_PER_HOUR",
    "COMPILER_AGENT_COUNTERS",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BoardSettings:
    host: str
    """`COMPILER_AGENT_LEADERBOARD_HOST`: what it listens at; this machine alone by default."""
    port: int
    """`COMPILER_AGENT_LEADERBOARD_PORT`; 0: one that is free."""
    public_url: SplitResult | None
    """`COMPILER_AGENT_LEADERBOARD_URL`: what browsers call the page behind a proxy, `https://board.example.org/wins`.
    None: they come straight to the address that it listens at."""
    usd_per_device_hour: float | None
    """`COMPILER_AGENT_DEVICE_USD_PER_HOUR`: what an hour of the device costs; None: no figure is in dollars."""
    counters: Path
    """`COMPILER_AGENT_COUNTERS`: the folder where serving processes leave what they counted; `counters` in the home."""


def read_board_settings(home: Path, environment: Mapping[str, str] = os.environ) -> BoardSettings:
    """Raises UserFault."""
    return BoardSettings(
        host=environment.get(_HOST) or "127.0.0.1",
        port=_port(environment.get(_PORT)),
        public_url=_public_url(environment.get(_URL)),
        usd_per_device_hour=_price(environment.get(_PRICE)),
        counters=Path(environment.get(_COUNTERS) or home / "counters").absolute(),
    )


def _port(text: str | None) -> int:
    if not text:
        return 8400
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > 65535:
        raise UserFault(f"{_PORT} is {text!r}: give 0 to 65535")
    return int(text)


def _public_url(text: str | None) -> SplitResult | None:
    if not text:
        return None
    try:
        url = urlsplit(text.rstrip("/"))
        is_plain = url.scheme in ("http", "https") and bool(url.hostname) and url.port != 0
    except ValueError:
        is_plain = False
    if not is_plain or url.query or url.fragment or url.username is not None or url.path.startswith("//"):
        raise UserFault(f"{_URL} is {text!r}: give https://HOST, with a path where a proxy mounts the page below one")
    # As browsers write it, in Host and in Origin: without the port that its scheme has anyway.
    is_usual = url.port == {"http": 80, "https": 443}[url.scheme]
    return url._replace(netloc=url.netloc.rpartition(":")[0]) if is_usual else url


def _price(text: str | None) -> float | None:
    if not text:
        return None
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 < price < math.inf:
        raise UserFault(f"{_PRICE} is {text!r}: give dollars an hour, such as 2.50")
    return price
