"""The right to measure: one holder on the machine at a time, on one core where one is measured."""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import torch


@contextmanager
def exclusive_slot(lock_file: Path) -> Iterator[None]:
    """Waits for every other process that measures on this machine; freed by the system if the holder dies."""
    lock_file.parent.mkdir(parents=True, exist_ok=True)
    with lock_file.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


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
