"""The device lock between processes: who waits, who need not, and what a dead holder leaves."""

import os
import select
import subprocess
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from candidates.benchmark.exclusive import building_slot, exclusive_slot


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
