import os
import subprocess
import sys

import pytest

from compiler_agent.home_lock import HomeTaken, find_holder, hold_home

HOLDS = """
import sys, pathlib
from compiler_agent.home_lock import hold_home
with hold_home(pathlib.Path(sys.argv[1]), "up"):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_home_is_held_by_one_and_the_other_is_told_by_whom(tmp_path):
    assert find_holder(tmp_path) is None
    with subprocess.Popen(
        [sys.executable, "-c", HOLDS, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout.readline() == b"held\n"
        holder = find_holder(tmp_path)
        assert (holder.pid, holder.command) == (other.pid, "up")
        told = rf"`compiler-agent up` \(pid {other.pid}\) has {tmp_path}"
        with pytest.raises(HomeTaken, match=told) as refusal, hold_home(tmp_path, "run"):
            pass
        assert refusal.value.holder == holder
        other.kill()
    assert find_holder(tmp_path) is None  # the end of a process lets it go, whatever ended it
    with hold_home(tmp_path, "run"):
        assert find_holder(tmp_path).pid == os.getpid()
