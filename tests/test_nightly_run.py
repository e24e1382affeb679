"""A whole run on the real model: interrupted in its search, then gone on with by the same command, to a gated build."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from candidates.ledger.ledger import Ledger

COMMAND = (
    *(sys.executable, "-m", "compiler_agent", "run", "--json"),
    *("--limit", "120", "--hot-ops", "3", "--search-seconds", "45", "--attempts", "6"),
    *("--end-to-end-seconds", "40", "--compile-seconds", "0"),
)
PATIENCE_S = 900


def _rows(home: Path, table: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(home / "ledger.sqlite") as connection:
        return connection.execute(f"select run_id, task_id, candidate_id, recorded_at from {table}").fetchall()


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> Path:
    home: Path = tmp_path_factory.mktemp("home")
    Ledger(f"sqlite:///{home / 'ledger.sqlite'}")  # so that its tables are there when the tests look into them
    return home


@pytest.fixture(scope="module")
def environment(home: Path) -> dict[str, str]:
    return os.environ | {"COMPILER_AGENT_HOME": str(home)}


@pytest.fixture(scope="module")
def interrupted(home: Path, environment: dict[str, str]) -> list[tuple[object, ...]]:
    """The attempts that were recorded when Ctrl-C came."""
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment) as process:
        deadline = time.monotonic() + PATIENCE_S
        while len(_rows(home, "attempts")) < 2:
            assert process.poll() is None, process.stderr.read().decode() if process.stderr else ""
            assert time.monotonic() < deadline
            time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
    assert process.returncode == 130, stderr.decode()
    assert stdout == b""
    assert b"Traceback" not in stderr
    return _rows(home, "attempts")


@pytest.fixture(scope="module")
def report(environment: dict[str, str], interrupted: list[tuple[object, ...]]) -> dict[str, object]:
    finished = subprocess.run(COMMAND, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    assert finished.returncode in (0, 1), finished.stderr.decode()
    document: dict[str, object] = json.loads(finished.stdout)
    return document


@pytest.mark.slow
def test_an_interrupted_run_leaves_no_process_behind(home, interrupted):
    left = subprocess.run(["pgrep", "-f", str(home)], capture_output=True, text=True, check=False)
    assert left.stdout == ""


@pytest.mark.slow
def test_the_same_command_goes_on_and_repeats_nothing(home, interrupted, report):
    attempts = _rows(home, "attempts")
    assert attempts[: len(interrupted)] == interrupted
    assert len({row[:3] for row in attempts}) == len(attempts)
    assert {row[0] for row in attempts} == {report["run_id"]}


@pytest.mark.slow
def test_kernels_win_and_the_model_stays_the_same(report):
    won = [op for op in report["hot_ops"] if op["decision"] in ("shipped", "won_not_shipped")]
    assert won
    assert all(op["speedup_over_best"] > 1.03 for op in won)
    end_to_end = report["end_to_end"]
    assert end_to_end["kl_divergence"] < 1e-4
    assert end_to_end["positions"] >= 2000
    assert end_to_end["greedy_agreement"] == 1.0
    assert all(hits > 0 for hits in end_to_end["hits"].values())


@pytest.mark.slow
def test_the_build_is_not_live_before_someone_approves(environment, report):
    build = report["build"]
    assert build["live"] is False
    program = (sys.executable, "-m", "compiler_agent", "builds")
    for command, live in (("approve", build["id"]), ("rollback", None)):
        # Whether it passed its gates depends on how busy this machine is.
        arguments = ("--force", build["id"][:12]) if command == "approve" else ()
        finished = subprocess.run(
            [*program, command, *arguments, "--json"], capture_output=True, env=environment, check=True
        )
        assert json.loads(finished.stdout)["build_id"] == live


@pytest.mark.slow
@pytest.mark.long
def test_a_kernel_that_won_is_promoted_by_hand(home, environment, report):
    ledger = Ledger(f"sqlite:///{home / 'ledger.sqlite'}")
    won = [decision.task_id for decision in ledger.promotions(report["run_id"]) if decision.is_promoted]
    program = (sys.executable, "-m", "compiler_agent", "promote", "--json", won[0][:16])
    finished = subprocess.run(program, capture_output=True, timeout=PATIENCE_S, env=environment, check=False)
    assert finished.returncode in (0, 1), finished.stderr.decode()
    promoted = json.loads(finished.stdout)
    assert promoted["run_id"].startswith("promote-")
    assert promoted["build"]["kernels"] == 1
    assert {gate["name"] for gate in promoted["build"]["gates"]} >= {"faster end to end", "KL divergence"}
