"""Names that say which process of ours made a folder, so that what a crash left behind is told from what is in use."""

import os
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

PREFIX = "kernel-sandbox-"
_START_TIME = 19  # field 22 of /proc/PID/stat (proc(5)), counted from the state


def name_of_ours() -> str:
    """`kernel-sandbox-NAMESPACE-PID-START`: the last tells us from a later process that was given our pid."""
    return _name_of(os.getpid())


def left_behind_in(folder: Path) -> Iterator[Path]:
    """What processes of this pid namespace made here and can no longer remove, because they are gone."""
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.startswith(PREFIX) and is_left_behind(name):
            yield folder / name


def is_left_behind(name: str) -> bool:
    """Whether `name` begins as a process of this pid namespace that is gone would have begun it."""
    namespace, _, rest = name.removeprefix(PREFIX).partition("-")
    pid, _, rest = rest.partition("-")
    start, _, _ = rest.partition("-")
    if not (pid.isdecimal() and start.isdecimal()) or namespace != _pid_namespace():
        return False
    return start != _start_time(int(pid))


@lru_cache(maxsize=2)
def _name_of(pid: int) -> str:
    return f"{PREFIX}{_pid_namespace()}-{pid}-{_start_time(pid)}"


def _pid_namespace() -> str:
    return str(os.stat("/proc/self/ns/pid").st_ino)


def _start_time(pid: int) -> str | None:
    """In clock ticks since boot; None when there is no such process."""
    try:
        status = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    return status.rpartition(b") ")[2].split()[_START_TIME].decode()
