"""`compiler-agent tune` on a real task: given up and interrupted and gone on with by the same command; with a language
model."""

import itertools
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
from tests.model_server.behaviour import Say
from tests.model_server.server import KEY, MODEL, ModelServer

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


def _await_more_attempts(process: "subprocess.Popen[bytes]", home: Path, than: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while len(_attempts(home)) <= than:
        assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
        assert time.monotonic() < deadline
        time.sleep(0.2)


@pytest.fixture(scope="module")
def given_up(home: Path, environment: dict[str, str]) -> list[tuple[object, ...]]:
    """The attempts that were recorded when the run failed for good: what lies where its blobs should has four tries."""
    blobs, aside = home / "blobs", home / "blobs-aside"
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        _await_more_attempts(process, home, 0)
        blobs.rename(aside)
        blobs.touch()
        _, stderr = process.communicate(timeout=PATIENCE_S)
    blobs.unlink()
    aside.rename(blobs)
    assert process.returncode == 3, stderr.decode()
    assert b"NotADirectoryError" in stderr
    return _attempts(home)


@pytest.fixture(scope="module")
def interrupted(
    home: Path, environment: dict[str, str], given_up: list[tuple[object, ...]]
) -> list[tuple[object, ...]]:
    """The attempts that were recorded when Ctrl-C came."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        _await_more_attempts(process, home, len(given_up))
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    assert b"stopped; the same command goes on with it" in stderr
    assert b"Traceback" not in stderr
    return _attempts(home)


@pytest.mark.slow
def test_a_tune_that_failed_and_was_interrupted_goes_on_by_the_same_command(home, environment, given_up, interrupted):
    left = subprocess.run(["pgrep", "-f", str(home)], capture_output=True, text=True, check=False)
    assert left.stdout == ""
    finished = subprocess.run(COMMAND, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    report = json.loads(finished.stdout)
    assert finished.returncode == (0 if report["decision"] == "won" else 1), finished.stderr.decode()
    attempts = _attempts(home)
    assert attempts[: len(interrupted)] == interrupted
    assert interrupted[: len(given_up)] == given_up
    assert len(attempts) <= 8
    assert len({row[:2] for row in attempts}) == len(attempts) == report["tried"]
    assert {row[0] for row in attempts} == {report["run_id"]}
    assert report["task"] == RMSNORM.id
    assert report["speedup_over_best"] > 0
    assert report["share_of_floor"] > 0
    assert report["stop_reason"]
    assert report["spend_usd"] == 0.0
    assert [entry.run_id for entry in Ledger(f"sqlite:///{home / 'ledger.sqlite'}").runs()] == [report["run_id"]]


HONEST = (Path(__file__).parent / "attacks" / "honest" / "rmsnorm_two_pass.cpp").read_text()


@pytest.mark.slow
@pytest.mark.long
def test_a_model_writes_kernels_within_its_budget(tmp_path, environment):
    """The llm agent, its calls over HTTP, builder, judge and benchmark: all as they are."""
    numbers = itertools.count()
    server = ModelServer()
    server.default = lambda body: Say(
        text=f"Change: plain loops\n\n```cpp\n{HONEST}\n// version {next(numbers)}\n```\n", output_tokens=500
    )
    (tmp_path / "models.toml").write_text(
        f'[claude]\napi = "anthropic-messages"\nmodel = "{MODEL}"\nbase_url = "{server.url}"\nkey_env = "MY_KEY"\n'
        "usd_per_million_tokens = { input = 3.0, output = 15.0 }\n"
    )
    Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").put_task(RMSNORM)
    options = ("--agent", "search", "--agent", "llm", "--budget-usd", "1.5", "--attempts", "6")
    finished = subprocess.run(
        [*COMMAND[:6], *options],
        capture_output=True,
        timeout=PATIENCE_S,
        env=environment | {"COMPILER_AGENT_HOME": str(tmp_path), "MY_KEY": KEY},
        check=False,
    )
    server.close()
    report = json.loads(finished.stdout)
    assert finished.returncode == (0 if report["decision"] == "won" else 1), finished.stderr.decode()
    attempts = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}").attempts(report["run_id"], RMSNORM.id)
    written = [attempt for attempt in attempts if attempt.proposal.agent == "llm"]
    assert {attempt.proposal.model for attempt in written} == {"claude"}
    assert {attempt.verdict.outcome for attempt in written} == {"accepted"}
    assert server.usd(input=3.0, cache_read=3.0, cache_write=3.0, output=15.0) <= report["spend_usd"] + 1e-6
    assert 0 < report["spend_usd"] <= 1.5
    assert KEY not in finished.stdout.decode() + finished.stderr.decode()
    assert "llm: " in report["stop_reason"]
