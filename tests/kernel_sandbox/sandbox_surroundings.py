"""What the sandbox contract needs around a sandbox: services that must be out of reach, and what must not stay."""

import contextlib
import os
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from kernel_sandbox.leftovers import name_of_ours
from kernel_sandbox.sandbox import Ending, Finished, SandboxedProcess, SandboxError, SandboxSession


def put_all(session: SandboxSession, programs: dict[str, bytes]) -> None:
    for name, content in programs.items():
        session.put(name, content)


def end_of(process: SandboxedProcess) -> tuple[Ending, int]:
    process.stdout.read()
    finished: Finished = process.kill(grace_s=5.0)
    return finished.ending, finished.exit_code


class HostServices:
    """Services of the host that must be out of reach, as the arguments of the acts that try them."""

    def __enter__(self) -> dict[str, list[str]]:
        self._tcp, self._unix = socket.create_server(("127.0.0.1", 0)), socket.socket(socket.AF_UNIX)
        name = f"contract-{os.getpid()}"
        self._unix.bind(f"\0{name}")
        self._unix.listen()
        us = str(os.getpid())
        return {
            "tcp": [str(self._tcp.getsockname()[1])],
            "unix": [f"@{name}"],
            "signal_launcher": [us],
            "launchers_descriptors": [us],
        }

    def __exit__(self, *exc: object) -> None:
        self._tcp.close()
        self._unix.close()


def traces_of_sandboxes() -> dict[str, object]:
    """What of a sandbox can be seen from here."""
    ours = name_of_ours()
    return {
        "processes": descendants(),
        "threads": threading.active_count(),
        "mounts": Path("/proc/self/mountinfo").read_text(),
        "folders": sorted(name for name in os.listdir(tempfile.gettempdir()) if name.startswith(ours)),
        "groups": [folder for folder, _, _ in os.walk("/sys/fs/cgroup") if ours in folder],
        "shared memory": sorted(_files_of_sandboxes(Path("/dev/shm"))),
    }


def _files_of_sandboxes(folder: Path) -> Iterator[str]:
    """Not those of the programs that run beside us, as far as owners tell: root's sandboxes are not root."""
    for path in folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another program has just removed it
            if os.geteuid() != 0 or path.stat().st_uid != 0:
                yield path.name


SERVICES: set[int] = set()
"""Processes that tests started to last, such as a container engine: what is below them is not ours."""


def descendants() -> list[int]:
    """Processes below this one, parents first."""
    pids = [os.getpid()]
    for pid in pids:
        for children in Path(f"/proc/{pid}/task").glob("*/children"):
            pids += [child for child in map(int, children.read_text().split()) if child not in SERVICES]
    return pids[1:]


def wait_for(condition: Callable[[], bool], limit_s: float = 5.0) -> None:
    deadline_s = time.monotonic() + limit_s
    while time.monotonic() < deadline_s:
        try:
            if condition():
                return
        except SandboxError:
            pass
        time.sleep(0.005)
    pytest.fail("it did not happen")
