"""The right to measure: one holder on the machine at a time, on one core where one is measured, and no build beside."""

import fcntl
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch

DEVICE_LOCK = Path(tempfile.gettempdir()) / "compiler-agent-device.lock"
"""One for the machine, whatever home and user a run has. Containers must share it to measure beside each other."""


@contextmanager
def exclusive_slot(lock_file: Path = DEVICE_LOCK) -> Iterator[None]:
    """Waits for every other process that measures on this machine; freed by the system if the holder dies.

    Not for use within itself. Raises OSError where the lock cannot be opened.
    """
    with _locked(lock_file, fcntl.LOCK_EX):
        yield


@contextmanager
def building_slot(lock_file: Path = DEVICE_LOCK) -> Iterator[None]:
    """Waits for whoever measures, and lets nobody measure; builds do not wait for each other."""
    with _locked(lock_file, fcntl.LOCK_SH):
        yield


@contextmanager
def _locked(lock_file: Path, mode: int) -> Iterator[None]:
    descriptor = _open_lock(lock_file)
    try:
        fcntl.flock(descriptor, mode)
        yield
    finally:
        os.close(descriptor)


def _open_lock(path: Path) -> int:
    """Read-only: in a shared folder the kernel lets nobody open another user's file with O_CREAT."""
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        pass
    try:
        descriptor = os.open(path, flags | os.O_CREAT | os.O_EXCL)
    except FileExistsError:
        return os.open(path, flags)
    os.fchmod(descriptor, 0o644)  # whatever the umask: other users must be able to wait for it
    return descriptor


@contextmanager
def pinned(core: int | None) -> Iterator[None]:
    """The calling thread stays on `core` and torch runs one thread; None leaves the thread where it is."""
    cores, threads = os.sched_getaffinity(0), torch.get_num_threads()
    if core is not None:
        os.sched_setaffinity(0, {core})
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        os.sched_setaffinity(0, cores)


def measuring_core() -> int:
    """The last core that we may use: the system's own work prefers the first."""
    return max(os.sched_getaffinity(0))
