"""`compiler-agent tune` with the search agent on a real task: interrupted, then gone on with by the same command."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from judge_tasks import RMSNORM

from candidates.ledger.ledger import Ledger

COMMAND = (
    *(sys.executable, "-m", "compiler_agent", "tune", RMSNORM.id[:12], "--json"),
    *("--seconds", "60", "--attempts", "8"),
)
PATIENCE_S = 400


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home = tmp_path_factory.mktemp("home")
    Ledger(f"sqlite:///{home / 'ledger.sqlite'}").put_task(RMSNORM)
    return home


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    return os.environ | {"COMPILER_AGENT_HOME": str(home)}


def _attempts(home: Path) -> list[tuple[object, ...]]:
    with sqlite3.connect(home / "ledger.sqlite") as connection:
        return connection.execute("select run_id, candidate_id, recorded_at from attempts").fetchall()


@pytest.fixture(scope="module")
def interrupted(home: Path, environment: dict[str, str]) -> list[tuple[object, ...]]:
    """The attempts that were recorded when Ctrl-C came."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + PATIENCE_S
        while not _attempts(home):
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    assert b"stopped; the same command goes on with it" in stderr
    assert b"Traceback" not in stderr
    return _attempts(home)


@pytest.mark.slow
def test_an_interrupted_tune_goes_on_by_the_same_command(home, environment, interrupted):
    left = subprocess.run(["pgrep", "-f", str(home)], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    finished = subprocess.run(COMMAND, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    report = json.loads(finished.stdout)
    assert finished.returncode == (0 if report["decision"] == "won" else 1), finished.stderr.decode()
    attempts = _attempts(home)
    assert attempts[: len(interrupted)] == interrupted
    assert len({row[:2] for row in attempts}) == len(attempts) == report["tried"]
    assert {row[0] for row in attempts} == {report["run_id"]}
    assert report["task"] == RMSNORM.id
    assert report["speedup_over_best"] > 0
    assert report["share_of_floor"] > 0
    assert report["stop_reason"]
    assert report["spend_usd"] == 0.0
    assert [entry.run_id for entry in Ledger(f"sqlite:///{home / 'ledger.sqlite'}").runs()] == [report["run_id"]]
