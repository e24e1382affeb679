"""Programs that live exactly as long as the command that started them: the dev server and the workers."""

import contextlib
import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def start_child(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts `argv` with its output in `log`. A Ctrl-C in the terminal reaches only us; our death ends the child."""
    log.parent.mkdir(parents=True, exist_ok=True)
    libc = ctypes.CDLL(None)  # before the fork: the child may only make the system call
    with log.open("ab") as output:
        return subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(environment),
            start_new_session=True,
            preexec_fn=lambda: libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),
        )


def stop_children(children: Sequence[subprocess.Popen[bytes]], patience_s: float) -> None:
    """TERM to all, then KILL to those that are there after `patience_s`."""
    going_on = [child for child in children if child.poll() is None]
    for child in going_on:
        child.terminate()
    deadline = time.monotonic() + patience_s
    for child in going_on:
        try:
            child.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def end_group(child: subprocess.Popen[bytes]) -> None:
    """What a child that has ended has left in its session."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
