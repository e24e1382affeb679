"""What a process of ours leaves when it is killed is removed by the next, and nothing else is."""

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.leftovers import PREFIX, left_behind_in, name_of_ours

KILLED_WITH_A_PROGRAM = """
import os, signal
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from kernel_sandbox.leftovers import name_of_ours
from kernel_sandbox.sandbox import Limits
sandbox = BubblewrapSandbox()
session = sandbox.open(Limits())
process = session.start(["cat"])
process.stdin.write(b"x")
process.stdout.read(1)
print(name_of_ours(), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_what_a_killed_process_left_is_removed() -> None:
    killed = subprocess.run([sys.executable, "-c", KILLED_WITH_A_PROGRAM], capture_output=True, text=True, check=False)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    name = killed.stdout.strip()
    assert _folders_of(name)
    BubblewrapSandbox().check()
    assert not _folders_of(name)


def test_only_folders_of_processes_that_are_gone_are_left_behind(tmp_path: Path) -> None:
    namespace = os.stat("/proc/self/ns/pid").st_ino
    gone = f"{PREFIX}{namespace}-{os.getpid()}-1-0"
    others = [f"{name_of_ours()}-7", f"{PREFIX}1-{os.getpid()}-1-0", f"{PREFIX}notes", "a-folder"]
    for name in (gone, *others):
        (tmp_path / name).mkdir()
    assert [path.name for path in left_behind_in(tmp_path)] == [gone]


@pytest.mark.parametrize("folder", ["/no/such/folder", "/proc/1/root/x"])
def test_a_folder_that_cannot_be_read_holds_nothing(folder: str) -> None:
    assert list(left_behind_in(Path(folder))) == []


def _folders_of(name: str) -> list[str]:
    in_groups = (folder for folder, _, _ in os.walk("/sys/fs/cgroup") if name in folder)
    return [*in_groups, *(entry for entry in os.listdir(tempfile.gettempdir()) if entry.startswith(name))]
