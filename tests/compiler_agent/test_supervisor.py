"""Supervisor, with small programs in place of workers."""

import errno
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from compiler_agent.program_health import ProgramState
from compiler_agent.readiness import Listener, tell
from compiler_agent.supervisor import NeverReady, Program, Supervisor

SAYS_READY = """
import os, socket, sys, time
with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s:
    s.sendto(b"READY=1", os.environ["NOTIFY_SOCKET"].replace("@", "\\0", 1))
print("going on", flush=True)
"""
STAYS = f"{SAYS_READY}\ntime.sleep(600)"
PATIENCE_S = 30.0


class Told:
    """What a supervisor says of its programs."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.health = {}

    def __call__(self, programs, line):
        self.health = {program.name: program for program in programs}
        self.lines.append(line)

    def states(self):
        return {name: program.state for name, program in self.health.items()}


@pytest.fixture
def told():
    return Told()


@pytest.fixture
def program(tmp_path):
    def make(name: str, source: str, **kinds) -> Program:
        return Program(
            name=name,
            argv=(sys.executable, "-S", "-c", source),
            environment=os.environ,
            **{"log": tmp_path / f"{name}.log", "stage": 1, "stop_patience_s": 10.0} | kinds,
        )

    return make


def until(holds):
    """For `watch`: over when it holds."""
    deadline = time.monotonic() + PATIENCE_S

    def is_over() -> bool:
        assert time.monotonic() < deadline
        return holds()

    return is_over


def is_gone(pid: int) -> bool:
    """Ended; where nobody has asked how, an entry is left."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_program_that_cannot_be_started_is_tried_again(program, told, tmp_path):
    """Its log cannot be written: a disk that only reads."""
    (tmp_path / "logs").write_text("in the way")
    with Supervisor([program("a", STAYS), program("b", STAYS, log=tmp_path / "logs" / "b.log")], told) as supervisor:
        supervisor.watch(until(lambda: any("b: cannot be started" in line for line in told.lines)))
        assert told.states()["b"] is ProgramState.WAITING
        (tmp_path / "logs").unlink()
        supervisor.watch(until(lambda: set(told.states().values()) == {ProgramState.READY}))


def test_nobody_to_tell_ends_nothing(program, told):
    """A terminal that was closed, a full disk under what is told."""

    def tell(programs, line):
        told(programs, line)
        raise OSError(errno.ENOSPC, "No space left on device")

    with Supervisor([program("a", STAYS), program("b", STAYS, stage=2)], tell) as supervisor:
        supervisor.watch(until(lambda: list(told.states().values()) == [ProgramState.READY] * 2))
    assert told.lines[-2:] == ["b: stopped", "a: stopped"]


def test_a_program_that_dies_is_started_again_and_is_ready_again(program, told):
    with Supervisor([program("a", STAYS)], told) as supervisor:
        supervisor.watch(until(lambda: told.states() == {"a": ProgramState.READY}))
        first = told.health["a"].pid
        os.kill(first, signal.SIGKILL)
        supervisor.watch(until(lambda: told.health["a"].restarts == 1 and told.states()["a"] is ProgramState.READY))
        second = told.health["a"].pid
    assert is_gone(second)
    assert told.health["a"].last_exit == -signal.SIGTERM
    assert any("was killed by signal 9, again in 0.5 s; going on" in line for line in told.lines)


def test_one_that_keeps_ending_is_waited_for_longer_each_time(program, told):
    with Supervisor([program("a", "print('no luck'); raise SystemExit(2)")], told) as supervisor:
        supervisor.watch(until(lambda: told.health.get("a") is not None and told.health["a"].restarts == 2))
    waits = [line for line in told.lines if "ended with status 2" in line]
    assert ["again in 0.5 s; no luck" in waits[0], "again in 1 s; no luck" in waits[1]] == [True, True]


def test_later_stages_wait_for_one_that_is_awaited_and_stop_before_it(program, told, tmp_path):
    answering = tmp_path / "answers"
    first = program("first", STAYS, stage=0, is_awaited=True, answers=answering.exists)
    with Supervisor([first, program("second", STAYS)], told) as supervisor:
        began = time.monotonic()
        supervisor.watch(lambda: time.monotonic() - began > 1.0)
        assert told.states() == {"first": ProgramState.STARTING, "second": ProgramState.WAITING}
        answering.touch()
        supervisor.watch(until(lambda: set(told.states().values()) == {ProgramState.READY}))
    assert told.lines[-2:] == ["second: stopped", "first: stopped"]


def test_one_that_is_awaited_and_ends_is_said_with_its_log(program, told):
    first = program("first", "raise SystemExit(3)", stage=0, is_awaited=True)
    with (
        pytest.raises(NeverReady, match=r"first ended with status 3 before it was ready: see .*first\.log"),
        Supervisor([first, program("second", STAYS)], told) as supervisor,
    ):
        supervisor.watch(until(lambda: False))


def test_what_ignores_term_is_killed_and_what_a_program_left_goes_with_it(program, told, tmp_path):
    source = f"""
import signal, subprocess, sys
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-S", "-c", "import time; time.sleep(600)"])
open({str(tmp_path / "child")!r}, "w").write(str(child.pid))
{STAYS}
"""
    with Supervisor([program("a", source, stop_patience_s=0.5)], told) as supervisor:
        supervisor.watch(until(lambda: told.states() == {"a": ProgramState.READY}))
    assert told.health["a"].last_exit == -signal.SIGKILL
    left = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + PATIENCE_S
    while not is_gone(left):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_readiness_goes_from_one_end_to_the_other():
    listener = Listener()
    assert not listener.was_told_ready()
    tell(status="1 of 2 ready", environment=listener.environment)
    assert not listener.was_told_ready()
    tell(is_ready=True, environment=listener.environment)
    assert listener.was_told_ready()
    assert not listener.was_told_ready()
    listener.close()
    tell(is_ready=True, environment=listener_that_is_gone())
    tell(is_ready=True, environment={})


def listener_that_is_gone() -> dict[str, str]:
    listener = Listener()
    environment = listener.environment
    listener.close()
    return environment
