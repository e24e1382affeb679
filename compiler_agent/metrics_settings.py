"""MetricsSettings: where Prometheus finds figures, from the environment."""

import ipaddress
import os
from collections.abc import Mapping
from dataclasses import dataclass

from compiler_agent.outcome import UserFault

SERVICE, WORKER = "COMPILER_AGENT_METRICS", "COMPILER_AGENT_WORKER_METRICS"


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    """An IP address."""
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSettings:
    service: Address | None
    """`COMPILER_AGENT_METRICS`: where `compiler-agent metrics` serves; None: `up` starts none."""
    worker: Address | None
    """`COMPILER_AGENT_WORKER_METRICS`: where a worker serves its own; those of `up` take ports from there on. None:
    nowhere."""


def read_metrics_settings(environment: Mapping[str, str] = os.environ) -> MetricsSettings:
    """Raises UserFault."""
    return MetricsSettings(service=_address(environment, SERVICE), worker=_address(environment, WORKER))


def _address(environment: Mapping[str, str], variable: str) -> Address | None:
    text = environment.get(variable)
    if not text:
        return None
    host, _, port = text.rpartition(":")
    try:
        address = Address(str(ipaddress.ip_address(host.strip("[]"))), int(port))
    except ValueError:
        address = None
    if address is None or not 0 < address.port < 65_536:
        raise UserFault(f"{variable} is {text!r}: give an IP address and a port, such as 127.0.0.1:9464")
    return address
