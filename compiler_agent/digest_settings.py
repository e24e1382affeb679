"""Where digests of nightly runs are sent, from the environment, and how.

`COMPILER_AGENT_DIGEST_URL`, or `COMPILER_AGENT_DIGEST_URL_FILE`, a file that holds it: an incoming webhook as Slack,
Mattermost and others have it, which takes JSON with a `text`. Its address is the key to it.
"""

import json
import os
import socket
from collections.abc import Mapping
from pathlib import Path

from compiler_agent.outcome import UserFault
from leaderboard.webhooks.post import PostFailed, post_over_http
from leaderboard.webhooks.target import require_address
from workflows.activities.digest import DigestReceiver, NotReached, Unanswered

_URL, _FILE = "COMPILER_AGENT_DIGEST_URL", "COMPILER_AGENT_DIGEST_URL_FILE"


def read_digest_receiver(environment: Mapping[str, str] = os.environ) -> DigestReceiver | None:
    """None where none is configured. Raises UserFault, which does not hold the address."""
    source, url = _URL, environment.get(_URL, "").strip()
    if not url and environment.get(_FILE):
        source = f"the file that {_FILE} names"
        try:
            url = Path(environment[_FILE]).expanduser().read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is no text"
            raise UserFault(f"{source} cannot be read ({reason})") from None
    if not url:
        return None
    try:
        require_address(url)
    except ValueError as error:
        raise UserFault(f"{source}: {error}") from None
    return DigestReceiver(url=url, post=post_digest)


def post_digest(url: str, markdown: str) -> str:
    """What the receiver answered. Raises NotReached and Unanswered."""
    body = json.dumps({"text": markdown}).encode()
    headers = {"content-type": "application/json", "user-agent": "compiler-agent"}
    try:
        status = post_over_http(url, headers, body)
    except PostFailed as failed:
        never_began = isinstance(failed.__cause__, ConnectionRefusedError | socket.gaierror)
        raise (NotReached if never_began else Unanswered)(str(failed)) from None
    if not 200 <= status < 300:
        raise NotReached(f"answered {status}")
    return f"answered {status}"
