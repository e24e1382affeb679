"""The device lock between processes: who waits, who need not, and what a dead holder leaves."""

import os
import select
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from candidates.benchmark.exclusive import (
    building_slot,
    exclusive_slot,
    measuring_core,
    running_slot,
    screening_slot,
)


class OtherProcess:
    """flock(1) from util-linux, which holds the lock until it is told to end."""

    def __init__(self, lock_file: Path, mode: str) -> None:
        self._process = subprocess.Popen(
            ["flock", mode, lock_file, "sh", "-c", "echo; read _"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )

    def has_it(self, within_s: float) -> bool:
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], within_s)[0])

    def end(self) -> None:
        self._process.communicate(b"\n", timeout=10)


MEASURES, BUILDS = "--exclusive", "--shared"


@pytest.fixture
def lock_file(tmp_path: Path) -> Path:
    return tmp_path / "lock"


@pytest.mark.parametrize(
    ("slot", "other"), [(exclusive_slot, MEASURES), (exclusive_slot, BUILDS), (building_slot, MEASURES)]
)
def test_measurement_is_alone(
    lock_file: Path, slot: Callable[[Path], AbstractContextManager[None]], other: str
) -> None:
    with slot(lock_file):
        waiting = OtherProcess(lock_file, other)
        assert not waiting.has_it(within_s=0.3)
    assert waiting.has_it(within_s=10)
    waiting.end()


def test_builds_do_not_wait_for_each_other(lock_file: Path) -> None:
    with building_slot(lock_file), building_slot(lock_file):
        other = OtherProcess(lock_file, BUILDS)
        assert other.has_it(within_s=10)
        other.end()


def test_device_is_free_after_a_failure(lock_file: Path) -> None:
    with pytest.raises(RuntimeError, match="measured nothing"), exclusive_slot(lock_file):
        raise RuntimeError("measured nothing")
    with exclusive_slot(lock_file):
        pass


def test_other_users_can_wait_whatever_the_umask(lock_file: Path) -> None:
    umask = os.umask(0o077)
    try:
        with exclusive_slot(lock_file):
            pass
    finally:
        os.umask(umask)
    assert lock_file.stat().st_mode & 0o444 == 0o444


def test_link_in_the_shared_folder_is_not_followed(lock_file: Path) -> None:
    lock_file.symlink_to(lock_file.with_name("elsewhere"))
    with pytest.raises(OSError, match="symbolic"), exclusive_slot(lock_file):
        pass
    assert not lock_file.with_name("elsewhere").exists()


Slot = Callable[[Path], AbstractContextManager[None]]


def begins_beside(slot: Slot, other: Slot, lock_file: Path) -> bool:
    """Whether `other` begins while `slot` is held; it does once it is free, in any case."""
    begun = threading.Event()

    def begin() -> None:
        with other(lock_file):
            begun.set()

    thread = threading.Thread(target=begin)
    with slot(lock_file):
        thread.start()
        is_beside = begun.wait(0.3)
    thread.join(10)
    assert begun.is_set()
    return is_beside


def test_builds_go_on_beside_a_screening_and_nothing_else_does(lock_file: Path) -> None:
    has_cores = len(os.sched_getaffinity(0)) > 1
    assert begins_beside(screening_slot, building_slot, lock_file) == has_cores
    for other in (screening_slot, running_slot, exclusive_slot):
        assert not begins_beside(screening_slot, other, lock_file)
    assert not begins_beside(running_slot, screening_slot, lock_file)
    assert begins_beside(running_slot, building_slot, lock_file)


def test_a_build_takes_the_core_that_measures_only_while_nobody_does(lock_file: Path) -> None:
    cores = os.sched_getaffinity(0)
    assert measuring_core() == max(cores)
    with building_slot(lock_file):
        assert os.sched_getaffinity(0) == cores
    assert not begins_beside(building_slot, screening_slot, lock_file)
    if others := cores - {max(cores)}:
        with screening_slot(lock_file), building_slot(lock_file):
            assert os.sched_getaffinity(0) == others
        assert os.sched_getaffinity(0) == cores


def test_who_waits_to_measure_is_not_passed_by_builds(lock_file: Path) -> None:
    order: list[str] = []

    def measure() -> None:
        with exclusive_slot(lock_file):
            order.append("measures")

    def build() -> None:
        with building_slot(lock_file):
            order.append("builds")

    with building_slot(lock_file):
        threads = [threading.Thread(target=each) for each in (measure, build)]
        for thread in threads:
            thread.start()
            time.sleep(0.2)
        assert order == []
    for thread in threads:
        thread.join(10)
    assert order == ["measures", "builds"]
