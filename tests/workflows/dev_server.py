"""A Temporal server with settings of its own, on a port of one's choice."""

import json
import os
import socket
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.temporal_server import answers, temporal_binary

START_S = ENDING_S = 20.0


def dev_server_command(home: Path, port: int, dynamic: Mapping[str, object] | None = None) -> list[str]:
    """Its state is in `home`; `dynamic` is its dynamic configuration."""
    given = [f"--dynamic-config-value={name}={json.dumps(value)}" for name, value in (dynamic or {}).items()]
    return [
        str(temporal_binary()), "server", "start-dev", "--headless", "--ip", "127.0.0.1", "--port", str(port),
        "--db-filename", str(home / "temporal.sqlite"), "--log-level", "error", *given,
    ]  # fmt: skip


@contextmanager
def dev_server(home: Path, dynamic: Mapping[str, object]) -> Iterator[str]:
    """Its address, once it answers."""
    port = free_port()
    server = start_child(dev_server_command(home, port, dynamic), home / "temporal.log", os.environ)
    try:
        deadline_s = time.monotonic() + START_S
        while not answers(f"127.0.0.1:{port}"):
            if server.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError((home / "temporal.log").read_text())
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        stop_children([server], ENDING_S)


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port: int = probe.getsockname()[1]
        return port
