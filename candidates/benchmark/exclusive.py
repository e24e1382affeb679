"""Who may work while somebody measures.

A measurement that decides has the machine to itself. A screening, which only ranks, has its core to itself: compilers
work beside it on the other cores, and nothing that runs kernels does.
"""

import contextlib
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
    """Waits for all others on this machine, and lets nobody begin; freed by the system if the holder dies.

    Not for use within itself. Raises OSError where the lock cannot be opened.
    """
    with _locked(lock_file, fcntl.LOCK_EX):
        yield


@contextmanager
def screening_slot(lock_file: Path = DEVICE_LOCK) -> Iterator[None]:
    """The core that measures, alone: waits for who measures and for who runs kernels, not for builds."""
    with _locked(lock_file, fcntl.LOCK_SH), _locked(_core_lock(lock_file), fcntl.LOCK_EX):
        yield


@contextmanager
def running_slot(lock_file: Path = DEVICE_LOCK) -> Iterator[None]:
    """For what runs kernels untimed, on any core; waits for whoever measures, and lets nobody measure."""
    with _locked(lock_file, fcntl.LOCK_SH), _locked(_core_lock(lock_file), fcntl.LOCK_SH):
        yield


@contextmanager
def building_slot(lock_file: Path = DEVICE_LOCK) -> Iterator[None]:
    """Waits for measurements that decide, and lets nobody begin one; builds do not wait for each other.

    What the calling thread starts stays off the core that measures, unless nobody measures or waits to. A machine of
    one core builds or measures.
    """
    cores = os.sched_getaffinity(0)
    others = cores - {measuring_core()}
    with contextlib.ExitStack() as stack:
        stack.enter_context(_locked(lock_file, fcntl.LOCK_SH))
        try:
            stack.enter_context(_locked(_core_lock(lock_file), fcntl.LOCK_SH | (fcntl.LOCK_NB if others else 0)))
        except BlockingIOError:
            os.sched_setaffinity(0, others)
            stack.callback(os.sched_setaffinity, 0, cores)
        yield


def _core_lock(lock_file: Path) -> Path:
    return lock_file.with_suffix(".core.lock")


@contextmanager
def _locked(lock_file: Path, mode: int) -> Iterator[None]:
    """In turn: who comes later waits behind who waits, or a stream of builds would let nobody measure. Raises
    BlockingIOError where `mode` says not to wait."""
    with contextlib.ExitStack() as turn:
        gate = _open_lock(lock_file.with_suffix(".gate"))
        turn.callback(os.close, gate)
        fcntl.flock(gate, mode)
        descriptor = _open_lock(lock_file)
        try:
            fcntl.flock(descriptor, mode)
            turn.close()
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
