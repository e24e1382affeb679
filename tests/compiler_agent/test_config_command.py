"""`compiler-agent config`, and what a file of settings does to every command."""

import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from compiler_agent.main import run_command


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    stdout: str
    stderr: str


@pytest.fixture
def command(tmp_path, monkeypatch, capsys) -> Iterator[Callable[..., Ran]]:
    """In this process, whose environment is afterwards what it was: a file of settings is applied to it."""
    before = dict(os.environ)
    for name in [name for name in os.environ if name.startswith("COMPILER_AGENT_")]:
        del os.environ[name]
    monkeypatch.chdir(tmp_path)

    def run(*arguments: str, **variables: str) -> Ran:
        os.environ.update({"COMPILER_AGENT_HOME": str(tmp_path / "home")} | variables)
        code = run_command(arguments)
        return Ran(code, *capsys.readouterr())

    yield run
    os.environ.clear()
    os.environ.update(before)


def test_show_tells_values_and_sources_and_no_secret(command, tmp_path):
    (tmp_path / "compiler-agent.toml").write_text('[temporal]\nnamespace = "kernels"\n')
    ran = command(
        "config", "show", "--json",
        OPENAI_API_KEY="tell-nobody", COMPILER_AGENT_LEDGER="postgresql+psycopg://me:tell-nobody@db/ledger",
    )  # fmt: skip
    assert ran.code == 0, ran.stderr
    assert "tell-nobody" not in ran.stdout + ran.stderr
    document = json.loads(ran.stdout)
    assert document["file"] == str(tmp_path / "compiler-agent.toml")
    rows = {row["key"]: (row["value"], row["source"]) for row in document["settings"]}
    assert rows["temporal.namespace"] == ("kernels", "file")
    assert rows["openai.api_key"] == ("set", "environment")
    assert rows["anthropic.api_key"] == ("not set", "default")
    assert rows["ledger.url"] == ("postgresql+psycopg://me:***@db/ledger", "environment")
    assert rows["leaderboard.host"] == ("127.0.0.1", "default")


def test_check_tells_everything_that_is_wrong_at_once(command, tmp_path):
    (tmp_path / "other.toml").write_text('[leaderboard]\nurl = "board"\n[webhook]\nurls = ["https://a.example"]\n')
    ran = command(
        "--config", "other.toml", "config", "check", "--json",
        COMPILER_AGENT_TEMPORL="x:1", COMPILER_AGENT_TEMPORAL="127.0.0.1:1", COMPILER_AGENT_HOME="/proc/nowhere",
        COMPILER_AGENT_LEDGER="postgresql+psycopg://127.0.0.1:1/ledger",
    )  # fmt: skip
    assert ran.code == 2, ran.stderr
    wrong = {found["name"]: found["detail"] for found in json.loads(ran.stdout)["findings"] if not found["there"]}
    assert "COMPILER_AGENT_TEMPORL (did you mean COMPILER_AGENT_TEMPORAL?)" in wrong["names"]
    assert "leaderboard.url in" in wrong["leaderboard"]
    assert "other.toml, line 2" in wrong["leaderboard"]
    assert "COMPILER_AGENT_WEBHOOK_SECRET" in wrong["webhooks"]
    assert "/proc/nowhere" in wrong["home folder"]
    assert "COMPILER_AGENT_LEDGER" in wrong["ledger"]
    assert "127.0.0.1:1" in wrong["Temporal"]


def test_check_finds_nothing_wrong_where_nothing_is(command):
    ran = command("config", "check")
    assert ran.code == 0, ran.stdout + ran.stderr


def test_a_wrong_file_ends_any_command_with_exit_2(command, tmp_path):
    (tmp_path / "compiler-agent.toml").write_text("[leaderboard]\nprot = 1\n")
    ran = command("wins")
    assert ran.code == 2
    assert "line 2: leaderboard.prot is no setting: did you mean leaderboard.port?" in ran.stderr
