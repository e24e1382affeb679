"""What a user gets for bad input: one message with file, line and next step, exit code 2, nothing in the ledger."""

import contextlib
import gzip
import json
import os
import shutil
import sqlite3
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from candidates.ledger.ledger import Ledger
from compiler_agent.main import run_command
from traces.sample import SAMPLE_TRACE

PROGRAM = (sys.executable, "-m", "compiler_agent")


NO_NAMESPACES = ("unshare", "-Ur", "sh", "-c", 'echo 0 > /proc/sys/user/max_user_namespaces && exec "$@"', "sh")
"""Runs a program where no user namespace can be made, as on systems that restrict them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def run(home, monkeypatch, capsys):
    """The command in this process: starting an interpreter for each of fifty refusals would take minutes."""

    def run_here(*arguments: str, **environment: str) -> Finished:
        for name, value in ({"COMPILER_AGENT_HOME": str(home)} | environment).items():
            monkeypatch.setenv(name, value)
        code = run_command(arguments)
        captured = capsys.readouterr()
        return Finished(returncode=code, stdout=captured.out, stderr=captured.err)

    return run_here


def _run_apart(
    home: Path, *arguments: str, launcher: tuple[str, ...] = (), **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*launcher, *PROGRAM, *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env=os.environ | {"COMPILER_AGENT_HOME": str(home)} | environment,
        check=False,
    )


def _assert_refused(finished: Finished | subprocess.CompletedProcess[str], *words: str) -> None:
    assert finished.returncode == 2, finished.stderr
    assert finished.stdout == ""
    assert "Traceback" not in finished.stderr
    unwrapped = " ".join(finished.stderr.split())
    for word in words:
        assert word in unwrapped


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _runs_in(home: Path) -> int:
    ledger = home / "ledger.sqlite"
    if not ledger.exists():
        return 0
    with sqlite3.connect(ledger) as connection:
        return int(connection.execute("select count(*) from runs").fetchone()[0])


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("empty.jsonl", b"", ("empty.jsonl",)),
        ("words.jsonl", b"not a trace\nat all\n", ("words.jsonl", "unknown format")),
        ("binary.jsonl", bytes(range(256)) * 8, ("binary.jsonl",)),
        ("cut.jsonl.gz", gzip.compress(SAMPLE_TRACE.read_bytes())[:4000], ("cut.jsonl.gz",)),
        ("broken.jsonl.gz", b"\x1f\x8b" + b"\x00" * 64, ("broken.jsonl.gz",)),
        (
            "uncovered.jsonl",
            b'{"timestamp": 0, "input_length": 5000, "output_length": 5, "hash_ids": [1, 2]}\n',
            ("uncovered.jsonl", "line 1", "cannot cover"),
        ),
    ],
)
@pytest.mark.parametrize("command", ["run", "replay", "hot-ops"])
def test_a_trace_that_cannot_be_used_is_refused(run, home, tmp_path, command, name, content, words):
    path = tmp_path / name
    path.write_bytes(content)
    option = ("--trace", str(path)) if command == "run" else (str(path),)
    _assert_refused(run(command, *option), *words)
    assert _runs_in(home) == 0


@pytest.mark.parametrize("seconds", ["inf", "nan", "-1", "1e300"])
@pytest.mark.parametrize(
    "command", [("run", "--search-seconds"), ("run", "--compile-seconds"), ("tune", "x", "--seconds")]
)
def test_a_time_without_end_is_refused(run, home, command, seconds):
    _assert_refused(run(*command, seconds), "should be", command[-1])
    assert _runs_in(home) == 0


def test_a_missing_trace_is_refused(run, home):
    _assert_refused(run("run", "--trace", "/no/such/trace.jsonl"), "/no/such/trace.jsonl")


def test_a_missing_model_is_refused(run, home):
    _assert_refused(run("run", "--model", "/no/such/model"), "/no/such/model")
    assert _runs_in(home) == 0


def test_no_compiler_is_refused_with_the_fix(run, home, tmp_path):
    (tmp_path / "bin").mkdir()
    finished = run("run", PATH=str(tmp_path / "bin"))
    _assert_refused(finished, "g++", "apt-get install g++")
    assert _runs_in(home) == 0


def test_no_sandbox_is_refused_with_the_fix(run, home, tmp_path):
    finished = _run_apart(home, "run", launcher=NO_NAMESPACES)
    _assert_refused(finished, "sandbox", "user namespace")
    assert _runs_in(home) == 0


def test_a_home_that_cannot_be_made_is_refused():
    """Not even root makes folders there."""
    _assert_refused(_run_apart(Path("/proc/home"), "run"), "COMPILER_AGENT_HOME")


def test_a_home_that_is_a_file_is_refused(tmp_path):
    home = tmp_path / "file"
    home.write_text("")
    _assert_refused(_run_apart(home, "run"), "COMPILER_AGENT_HOME")


@pytest.mark.slow
def test_single_bad_rows_are_dropped_and_counted(run, home, tmp_path, tiny_llama):
    rows = [{"timestamp": i * 1000, "input_length": 600, "output_length": 4, "hash_ids": [0, i + 1]} for i in range(20)]
    lines = [json.dumps(row) for row in rows]
    lines[3] = '{"timestamp": 3000, "input_length": -5, "output_length": 4, "hash_ids": []}'
    lines[7] = "{broken"
    path = tmp_path / "rows.jsonl"
    path.write_text("\n".join(lines))
    finished = run("replay", str(path), "--model", str(tiny_llama), "--json")
    assert finished.returncode == 0, finished.stderr
    requests = json.loads(finished.stdout)["requests"]
    assert requests["read"] == 20
    assert requests["kept"] == 18
    assert sum(requests["dropped"].values()) == 2


def test_an_unknown_task_is_refused(run, home):
    home.mkdir()
    _assert_refused(run("task", "show", "zz"), "compiler-agent task list")


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("none.py", None, ("no file", "none.py")),
        ("text.py", "def f(:", ("text.py:1:7", "no Python")),
        ("other.py", "x = 1", ("other.py:1", "class Model(nn.Module)")),
        ("lonely.json", "{}", ("lonely.json", "DATASET/definitions")),
        ("definitions/gemm/cut.json", "{\n", ("cut.json:2:1", "no JSON")),
        ("table.csv", "", ("table.csv", ".py files (KernelBench)")),
        (".", None, ("no problems",)),
    ],
)
def test_a_problem_that_cannot_be_read_is_refused(run, home, tmp_path, name, content, words):
    path = tmp_path / name
    if content is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(content)
    _assert_refused(run("task", "import", str(path)), *words)
    assert not (home / "ledger.sqlite").exists()


def test_a_ledger_that_is_none_is_refused(run, home):
    home.mkdir()
    (home / "ledger.sqlite").write_text("not a database, and longer than a header " * 8)
    _assert_refused(run("task", "list", "--json"), "COMPILER_AGENT_HOME")


def test_a_damaged_ledger_is_refused(run, home):
    home.mkdir()
    ledger = home / "ledger.sqlite"
    Ledger(f"sqlite:///{ledger}").engine.dispose()
    with contextlib.closing(sqlite3.connect(ledger)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    ledger.write_bytes(ledger.read_bytes()[:4096] + b"Z" * 40_960)
    _assert_refused(run("ledger", "check"), "malformed", "restore a backup")


@pytest.mark.parametrize("variable", ["COMPILER_AGENT_LEDGER_FILE", "COMPILER_AGENT_CONFIG"])
def test_a_path_of_nobody_is_refused(run, variable):
    _assert_refused(run("task", "list", "--json", **{variable: "~nobody-of-this-name/file"}), "no such user")


def test_a_ledger_that_has_no_folder_is_refused(run):
    finished = run("task", "list", "--json", COMPILER_AGENT_HOME="/proc/none")
    _assert_refused(finished, "COMPILER_AGENT_HOME", "/proc/none")


def test_a_server_that_does_not_answer_is_refused(run):
    finished = run("worker", "--queue", "control", COMPILER_AGENT_TEMPORAL="127.0.0.1:1", COMPILER_AGENT_ALLOW_ROOT="1")
    _assert_refused(finished, "127.0.0.1:1", "COMPILER_AGENT_TEMPORAL")


def test_a_negative_seed_is_refused(run):
    _assert_refused(run("judge", "3f2a", "kernel.cpp", "--seed", "-1"), "--seed")


def test_an_unknown_option_is_refused(run, home):
    assert run("run", "--no-such-option").returncode == 2


@pytest.mark.parametrize(
    "command",
    ["run", "tune", "replay", "hot-ops", "task list", "task show", "task import", "task export", "judge", "bench",
     "builds list", "builds show", "builds approve", "builds rollback", "builds sign", "builds diff", "builds gc",
     "keys new", "keys show", "worker", "up", "status", "config show", "config check", "doctor"],
)  # fmt: skip
def test_help_shows_an_example(run, home, command):
    finished = run(*command.split(), "--help")
    assert finished.returncode == 0
    assert "Example: " in finished.stdout


def test_doctor_says_what_this_machine_has(run, home):
    finished = run("doctor", "--no-ceilings", "--json")
    document = json.loads(finished.stdout)
    found = {finding["name"]: finding["there"] for finding in document["findings"]}
    assert found["C++ compiler"] is (shutil.which("g++") is not None)
    assert document["able"] is (finished.returncode == 0)


def test_a_cluster_that_does_not_answer_is_refused_before_a_run_is_recorded(run, home):
    _assert_refused(run("run", COMPILER_AGENT_TEMPORAL="127.0.0.1:9"), "127.0.0.1:9", "COMPILER_AGENT_TEMPORAL")
    assert _runs_in(home) == 0
