"""Webhooks' targets, from the environment.

`COMPILER_AGENT_WEBHOOK_URL`: addresses that promotions, retractions and changes of the live build are told to, with
blanks between them. `COMPILER_AGENT_WEBHOOK_SECRET`: as many secrets, in the same order, or
`COMPILER_AGENT_WEBHOOK_SECRET_FILE`: a file that holds them.
"""

import os
from collections.abc import Callable, Mapping
from pathlib import Path

from compiler_agent.outcome import UserFault
from leaderboard.webhooks.target import WebhookTarget, require_address, require_secret

_URL, _SECRET, _SECRET_FILE = (f"COMPILER_AGENT_WEBHOOK_{name}" for name in ("URL", "SECRET", "SECRET_FILE"))
_NEW_SECRET = "echo whsec_$(openssl rand -base64 32)"


def read_webhook_targets(environment: Mapping[str, str] = os.environ) -> tuple[WebhookTarget, ...]:
    """Empty where no address is configured. Raises UserFault, which holds neither an address nor a secret."""
    urls = environment.get(_URL, "").split()
    if not urls:
        return ()
    if len(set(urls)) != len(urls):
        raise UserFault(f"{_URL} names an address twice")
    source, secrets = _read_secrets(environment)
    if len(secrets) != len(urls):
        raise UserFault(
            f"{_URL} has {len(urls)} addresses and {source} {len(secrets)} secrets: each receiver has one of its own, "
            "in the same order"
        )
    for url in urls:
        _require(require_address, url, _URL)
    for secret in secrets:
        _require(require_secret, secret, source)
    return tuple(WebhookTarget(url=url, secret=secret) for url, secret in zip(urls, secrets, strict=True))


def _require(check: Callable[[str], None], word: str, source: str) -> None:
    try:
        check(word)
    except ValueError as error:
        raise UserFault(f"{source}: {error}") from None


def _read_secrets(environment: Mapping[str, str]) -> tuple[str, list[str]]:
    """Where they are from, and they."""
    if environment.get(_SECRET, "").strip():
        return _SECRET, environment[_SECRET].split()
    file = environment.get(_SECRET_FILE)
    if not file:
        raise UserFault(f"{_URL} is set without a secret to sign with: set {_SECRET} or {_SECRET_FILE} ({_NEW_SECRET})")
    try:
        return f"the file that {_SECRET_FILE} names", Path(file).expanduser().read_text(encoding="utf-8").split()
    except (OSError, ValueError) as error:
        raise UserFault(f"cannot read the file that {_SECRET_FILE} names ({type(error).__name__})") from None
