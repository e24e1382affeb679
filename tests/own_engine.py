"""A Docker engine of the tests' own, on a socket in a folder of theirs, with an image made of this machine's files."""

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from compiler_agent.child_processes import start_child, stop_children
from kernel_sandbox.docker_engine import Engine
from kernel_sandbox.docker_image import import_this_machine
from kernel_sandbox.docker_sandbox import DockerSandbox
from kernel_sandbox.sandbox import SandboxUnavailable

START_LIMIT_S = 60.0
NONE_HERE = "no Docker engine can be started here"
"""How the reason of a skip begins."""


class NoEngine(Exception):
    pass


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnEngine:
    engine: Engine
    image_id: str
    folder: Path
    pid: int

    def sandbox(self) -> DockerSandbox:
        return DockerSandbox(self.image_id, connect=lambda: self.engine)

    @property
    def environment(self) -> dict[str, str]:
        return {"DOCKER_HOST": self.engine.address}


@contextmanager
def own_engine(folder: Path) -> Iterator[OwnEngine]:
    """Raises NoEngine with the reason."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        raise NoEngine(f"{NONE_HERE}: that takes root, and dockerd (apt-get install docker.io)")
    failures = []
    # Within a container, overlay file systems may not lie on one another.
    for driver in ("overlay2", "vfs"):
        options = {
            "--host": f"unix://{folder}/docker.sock",
            **{f"--{name}": str(folder / driver / name) for name in ("data-root", "exec-root", "pidfile")},
            "--iptables": "false",
            "--bridge": "none",
            "--storage-driver": driver,
        }
        log = folder / f"{driver}.log"
        daemon = start_child(["dockerd", *(f"{name}={value}" for name, value in options.items())], log, os.environ)
        try:
            engine = _await(options["--host"], daemon)
            if engine is None:
                failures.append(f"{driver}: {log.read_text()[-300:]}")
                continue
            yield OwnEngine(engine=engine, image_id=import_this_machine(engine), folder=folder, pid=daemon.pid)
            return
        finally:
            stop_children([daemon], patience_s=30.0)
            _unmount(folder)
    raise NoEngine(f"{NONE_HERE}: {' '.join(failures)}")


def _await(address: str, daemon: "subprocess.Popen[bytes]") -> Engine | None:
    deadline_s = time.monotonic() + START_LIMIT_S
    while daemon.poll() is None and time.monotonic() < deadline_s:
        try:
            engine = Engine(address)
            engine.facts()
        except SandboxUnavailable:
            time.sleep(0.1)
        else:
            return engine
    return None


def _unmount(folder: Path) -> None:
    """What an engine that was stopped in the midst of its work left mounted."""
    for line in reversed(Path("/proc/self/mountinfo").read_text().splitlines()):
        point = line.split(" ")[4]
        if point.startswith(f"{folder}/"):
            subprocess.run(["umount", "--lazy", point], check=False, capture_output=True)


def shims_of(folder: Path) -> list[int]:
    """Processes of the engine that stay beside each container; no children of anybody here."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                command = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if b"containerd-shim" in command and os.fsencode(folder) in command:
                found.append(int(entry.name))
    return found
