"""Files that are there whole or not at all."""

import os
import stat
import subprocess
import sys
import time

import pytest

from candidates.whole_file import write_whole

WRITE_ONCE = """
import sys
from pathlib import Path
from candidates.whole_file import write_whole
print("writing", flush=True)
write_whole(Path(sys.argv[1]), bytes(20_000_000))
"""


def test_replaces_what_was_there_with_the_mode_that_was_asked_for(tmp_path):
    path = tmp_path / "folder" / "file"
    write_whole(path, b"first")
    write_whole(path, b"second", mode=0o600)
    assert path.read_bytes() == b"second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(path.parent) == ["file"]


@pytest.mark.parametrize("after_s", [0.01, 0.03])
def test_a_killed_writer_leaves_the_whole_file_or_none_and_nothing_beside_it(tmp_path, after_s):
    path = tmp_path / "file"
    with subprocess.Popen([sys.executable, "-c", WRITE_ONCE, str(path)], stdout=subprocess.PIPE) as writer:
        assert writer.stdout.readline() == b"writing\n"
        time.sleep(after_s)
        writer.kill()
    assert set(os.listdir(tmp_path)) <= {"file"}
    assert not path.exists() or path.stat().st_size == 20_000_000
