"""The device lock between processes: who waits, who need not, and what a dead holder leaves."""

import multiprocessing
import os
import signal
from multiprocessing.synchronize import Event
from pathlib import Path

import pytest

from candidates.benchmark.exclusive import exclusive_slot

_FORK = multiprocessing.get_context("fork")


def _hold(lock_file: Path, has_it: Event, may_end: Event) -> None:
    with exclusive_slot(lock_file):
        has_it.set()
        may_end.wait(60)


def _holder(lock_file: Path) -> tuple[multiprocessing.process.BaseProcess, Event, Event]:
    has_it, may_end = _FORK.Event(), _FORK.Event()
    process = _FORK.Process(target=_hold, args=(lock_file, has_it, may_end))
    process.start()
    return process, has_it, may_end


def test_second_process_waits_for_the_first(tmp_path: Path) -> None:
    first, first_has_it, first_may_end = _holder(tmp_path / "lock")
    assert first_has_it.wait(10)
    second, second_has_it, second_may_end = _holder(tmp_path / "lock")
    assert not second_has_it.wait(0.5)
    first_may_end.set()
    assert second_has_it.wait(10)
    second_may_end.set()
    first.join()
    second.join()


def test_holder_that_is_killed_frees_the_device(tmp_path: Path) -> None:
    holder, has_it, _ = _holder(tmp_path / "lock")
    assert has_it.wait(10)
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    holder.join()
    with exclusive_slot(tmp_path / "lock"):
        pass


def test_other_users_can_wait_whatever_the_umask(tmp_path: Path) -> None:
    umask = os.umask(0o077)
    try:
        with exclusive_slot(tmp_path / "lock"):
            pass
    finally:
        os.umask(umask)
    assert (tmp_path / "lock").stat().st_mode & 0o444 == 0o444


def test_link_in_the_shared_folder_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(OSError, match="symbolic"), exclusive_slot(tmp_path / "lock"):
        pass
    assert not (tmp_path / "elsewhere").exists()
