"""What /proc says of one process: its threads, whether they run."""

import contextlib
import os

STOPPED = (b"T", b"Z", b"X", b"")
"""States of a thread that does not run: stopped, dead, or gone."""


def signal_process(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


def is_stopped(pid: int) -> bool:
    return all(_state(read_path(f"/proc/{pid}/task/{thread}/stat")) in STOPPED for thread in threads(pid))


def _state(stat: bytes) -> bytes:
    return stat.rpartition(b") ")[2][:1]


def threads(pid: int) -> list[str]:
    try:
        return os.listdir(f"/proc/{pid}/task")
    except (FileNotFoundError, ProcessLookupError):
        return []


def read_again(descriptor: int) -> bytes:
    """The present content of a file in /proc, empty when its process is gone."""
    try:
        return os.pread(descriptor, 1 << 16, 0)
    except ProcessLookupError:
        return b""


def read_path(path: str) -> bytes:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except (FileNotFoundError, ProcessLookupError):
        return b""
    try:
        return read_again(descriptor)
    finally:
        os.close(descriptor)
