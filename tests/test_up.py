"""`compiler-agent up`: the real service on this machine, in a home of its own."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from candidates.ledger.ledger import Ledger
from compiler_agent.program_health import UpHealth, find_up
from tests.candidates.past_searches import double_task

PROGRAM = (sys.executable, "-m", "compiler_agent")
PATIENCE_S = 180.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@dataclass(frozen=True, slots=True, kw_only=True)
class Home:
    path: Path
    environment: dict[str, str]

    def start(self) -> "subprocess.Popen[str]":
        return subprocess.Popen([*PROGRAM, "up"], env=self.environment, stderr=subprocess.PIPE, text=True)

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run([*PROGRAM, *words], env=self.environment, capture_output=True, text=True, timeout=300)

    def until_ready(self, up: "subprocess.Popen[str]", restarts: int = 0) -> UpHealth:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            health = find_up(self.path)
            is_ready = health is not None and health.pid == up.pid and health.is_ready
            if is_ready and sum(program.restarts for program in health.programs) >= restarts:
                return health
            assert up.poll() is None, up.communicate()[1]
            assert time.monotonic() < deadline, health
            time.sleep(0.2)

    def processes(self) -> list[str]:
        """What is told of this home on its command line or in its environment, and not of these tests."""
        found = []
        for folder in Path("/proc").iterdir():
            try:
                said = (folder / "cmdline").read_bytes() + (folder / "environ").read_bytes()
            except OSError:
                continue
            if folder.name.isdecimal() and int(folder.name) != os.getpid() and str(self.path).encode() in said:
                found.append((folder / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    path = tmp_path_factory.mktemp("service") / "home"
    bare = {name: value for name, value in os.environ.items() if not name.startswith("COMPILER_AGENT_")}
    return Home(
        path=path,
        environment=bare
        | {
            "COMPILER_AGENT_HOME": str(path),
            "COMPILER_AGENT_LEADERBOARD_PORT": str(free_port()),
            "COMPILER_AGENT_METRICS": f"127.0.0.1:{free_port()}",
            "COMPILER_AGENT_WORKER_METRICS": f"127.0.0.1:{free_port()}",
            "COMPILER_AGENT_ALLOW_ROOT": "1",
        },
    )


@pytest.fixture(scope="module")
def up(home: Home) -> Iterator["subprocess.Popen[str]"]:
    """One that is ready; a test that ends it starts another for itself."""
    with home.start() as process:
        try:
            home.until_ready(process)
            yield process
        finally:
            process.kill()


@pytest.mark.slow
def test_it_serves_every_queue_and_status_is_healthy(home, up):
    ran = home.command("status", "--json")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    status = json.loads(ran.stdout)
    assert status["healthy"] is True
    workers = {queue["queue"].split("-")[0]: queue["workers"] for queue in status["temporal"]["queues"]}
    assert workers == {"control": 1, "author": 1, "build": 1, "ship": 1, "device": 1}
    assert [program["name"] for program in status["up"]["programs"]][:2] == ["temporal", "leaderboard"]
    with urllib.request.urlopen(status["up"]["leaderboard"], timeout=20) as page:
        assert page.status == 200
    figures = f"http://{home.environment['COMPILER_AGENT_METRICS']}/metrics"
    with urllib.request.urlopen(figures, timeout=20) as page:
        assert b"compiler_agent_problems 0.0" in page.read()


@pytest.mark.slow
def test_everything_listens_on_this_machine_alone(home, up):
    ours = set()
    for program in find_up(home.path).programs:
        for descriptor in Path(f"/proc/{program.pid}/fd").iterdir():
            target = os.readlink(descriptor)
            if target.startswith("socket:["):
                ours.add(target[8:-1])
    listening = []
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == "0A" and fields[9] in ours:
                listening.append(fields[1])
    assert len(listening) >= 2  # the server and the page
    assert {address.partition(":")[0] for address in listening} == {"0100007F"}


@pytest.mark.slow
def test_a_second_one_in_the_home_is_refused_and_told_by_whom(home, up):
    ran = home.command("up")
    assert ran.returncode == 2
    assert f"`compiler-agent up` (pid {up.pid}) has {home.path}" in ran.stderr


@pytest.mark.slow
def test_a_second_one_on_the_machine_with_another_home_needs_another_port(home, up, tmp_path):
    other = Home(
        path=tmp_path / "other", environment=home.environment | {"COMPILER_AGENT_HOME": str(tmp_path / "other")}
    )
    ran = other.command("up")
    assert ran.returncode == 2
    assert "set COMPILER_AGENT_LEADERBOARD_PORT" in ran.stderr
    assert other.processes() == []


@pytest.mark.slow
def test_a_run_goes_through_its_workers_and_outlasts_its_server(home, up):
    ledger = Ledger(f"sqlite:///{home.path / 'ledger.sqlite'}")
    task = double_task()
    ledger.put_task(task)
    command = [*PROGRAM, "tune", task.id[:12], "--seconds", "5", "--attempts", "1", "--json"]
    with subprocess.Popen(
        command, env=home.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as run:
        deadline = time.monotonic() + PATIENCE_S
        while not (runs := ledger.runs()) or not ledger.progress_after(runs[0].run_id, 0):
            assert run.poll() is None, run.communicate()[1]
            assert time.monotonic() < deadline
            time.sleep(0.1)
        (server,) = (program for program in find_up(home.path).programs if program.name == "temporal")
        os.kill(server.pid, signal.SIGKILL)
        stdout, stderr = run.communicate(timeout=5 * PATIENCE_S)
    assert run.returncode in (0, 1), stderr
    assert json.loads(stdout)["run_id"] == runs[0].run_id
    assert not (home.path / "logs" / "worker.log").exists()  # that of a run with workers of its own


@pytest.mark.slow
def test_what_is_killed_comes_back_the_server_at_the_same_address(home, up):
    before = {program.name: program for program in home.until_ready(up).programs}
    ended = sum(program.restarts for program in before.values())
    for name in ("temporal", "worker device", "worker control", "leaderboard"):
        os.kill(before[name].pid, signal.SIGKILL)
    health = home.until_ready(up, restarts=ended + 4)
    assert {program.name for program in health.programs if program.restarts} >= {"temporal", "worker device"}
    assert home.command("status").returncode == 0


@pytest.mark.slow
def test_term_ends_it_in_order_with_nothing_left(home, up):
    up.send_signal(signal.SIGTERM)
    said = up.communicate(timeout=PATIENCE_S)[1]
    assert up.returncode == 0, said
    stopped = [line.split(" ", 1)[1] for line in said.splitlines() if ": stopped" in line]
    names = [line.partition(":")[0] for line in stopped]
    assert names[-1] == "temporal"
    assert set(names[-3:-1]) == {"leaderboard", "metrics"}
    assert all(name.startswith("worker ") for name in names[:-3])
    assert not (home.path / "up.json").exists()
    assert home.processes() == []
    ran = home.command("status")
    assert ran.returncode == 1
    assert "start `compiler-agent up`" in ran.stdout


@pytest.mark.slow
def test_killed_it_leaves_nothing_that_runs_and_is_not_taken_for_running(home):
    with home.start() as first:
        home.until_ready(first)
        first.kill()
        first.communicate()
    deadline = time.monotonic() + PATIENCE_S
    while home.processes():
        assert time.monotonic() < deadline, home.processes()
        time.sleep(0.2)
    assert (home.path / "up.json").exists()
    assert find_up(home.path) is None
    assert home.command("status").returncode == 1


def test_root_is_refused_unless_told_otherwise(tmp_path, monkeypatch, capsys):
    from compiler_agent.main import run_command

    if os.geteuid() != 0:
        pytest.skip("not root")
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    monkeypatch.delenv("COMPILER_AGENT_ALLOW_ROOT", raising=False)
    for command in (("up",), ("worker", "--queue", "ship"), ("leaderboard", "--host", "0.0.0.0", "--port", "0")):
        assert run_command(command) == 2
        assert "does not run as root" in capsys.readouterr().err
