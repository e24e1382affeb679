"""WebhookTarget: where events are posted to, and the secret that signs them."""

import base64
import hashlib
import re
from dataclasses import dataclass, field
from ipaddress import ip_address
from urllib.parse import urlsplit

_SECRET = "whsec_"


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookTarget:
    """Raises ValueError at what cannot work, without the address or the secret: both may be secrets, and in the wrong
    place."""

    url: str = field(repr=False)
    """https, or http to this machine; also what the target is known by: another address is another target."""
    secret: str = field(repr=False)
    """`whsec_` and 24 to 64 bytes in base64, as Standard Webhooks has it; shared with this receiver alone."""

    def __post_init__(self) -> None:
        require_address(self.url)
        require_secret(self.secret)

    @property
    def digest(self) -> str:
        """What the ledger knows it by: addresses may hold keys."""
        return hashlib.sha256(self.url.encode()).hexdigest()


def require_secret(secret: str) -> None:
    """Raises ValueError."""
    try:
        key = base64.b64decode(secret.removeprefix(_SECRET), validate=True)
    except ValueError:
        key = b""
    if not secret.startswith(_SECRET) or not 24 <= len(key) <= 64:
        raise ValueError(f"a secret is {_SECRET} and 24 to 64 bytes in base64")


def require_address(url: str) -> None:
    """Raises ValueError."""
    if not re.fullmatch(r"[!-~]+", url):
        raise ValueError("an address has neither blanks nor letters beyond ASCII")
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError:
        raise ValueError("an address is https://HOST/PATH") from None
    if parts.scheme not in ("http", "https") or not host:
        raise ValueError("an address is https://HOST/PATH")
    if parts.username is not None or parts.fragment:
        raise ValueError("an address holds neither a user nor a fragment")
    if parts.scheme == "http" and not _is_this_machine(host):
        raise ValueError("an address begins with https, unless it is of this machine")


def _is_this_machine(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
