"""TemporalSecurity: how a Temporal server is spoken to that others could listen to, from the environment."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from compiler_agent.outcome import UserFault
from compiler_agent.switches import read_switch

_TLS, _CA, _CERTIFICATE, _KEY, _API_KEY, _API_KEY_FILE = (
    f"COMPILER_AGENT_TEMPORAL_{name}"
    for name in ("TLS", "TLS_CA_FILE", "TLS_CERTIFICATE_FILE", "TLS_KEY_FILE", "API_KEY", "API_KEY_FILE")
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TemporalSecurity:
    has_tls: bool
    """`COMPILER_AGENT_TEMPORAL_TLS`, or any of the others, which need it."""
    ca: bytes | None
    """`…_TLS_CA_FILE`, PEM; None: the authorities that this machine trusts."""
    certificate: bytes | None
    key: bytes | None
    """`…_TLS_CERTIFICATE_FILE`, `…_TLS_KEY_FILE`, PEM: who we are; both or none."""
    api_key: str | None
    """`…_API_KEY`, or what `…_API_KEY_FILE` holds."""


def read_temporal_security(environment: Mapping[str, str] = os.environ) -> TemporalSecurity:
    """Raises UserFault, which holds no secret."""
    ca, certificate, key = (_read(name, environment) for name in (_CA, _CERTIFICATE, _KEY))
    if (certificate is None) != (key is None):
        raise UserFault(f"{_CERTIFICATE} and {_KEY} belong together: set both, or none")
    api_key = environment.get(_API_KEY, "").strip() or (_read(_API_KEY_FILE, environment) or b"").decode().strip()
    has_tls = read_switch(environment, _TLS) or bool(api_key or ca or certificate)
    if has_tls and not environment.get("COMPILER_AGENT_TEMPORAL"):
        raise UserFault(f"{_TLS} and its like are for a server by address, which COMPILER_AGENT_TEMPORAL does not name")
    return TemporalSecurity(
        has_tls=has_tls,
        ca=ca,
        certificate=certificate,
        key=key,
        api_key=api_key or None,
    )


def _read(variable: str, environment: Mapping[str, str]) -> bytes | None:
    name = environment.get(variable)
    if not name:
        return None
    try:
        content = Path(name).expanduser().read_bytes()
    except OSError as error:
        raise UserFault(f"cannot read the file that {variable} names ({error.strerror})") from None
    if not content.strip() or not content.isascii():
        raise UserFault(f"the file that {variable} names holds nothing that can be used: it is empty, or no text")
    return content
