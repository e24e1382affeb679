"""Programs that live exactly as long as the command that started them: the dev server and the workers."""

import ctypes
import signal
import subprocess
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


def stop_child(child: subprocess.Popen[bytes], patience_s: float) -> None:
    """TERM, then KILL after `patience_s`."""
    if child.poll() is not None:
        return
    child.terminate()
    try:
        child.wait(patience_s)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
