"""A command whose ledger is in PostgreSQL: it works, or one message names the setting and what to do, exit code 2."""

import subprocess
import sys

import pytest

from compiler_agent.main import run_command

SETTING = "COMPILER_AGENT_LEDGER"


@pytest.fixture
def list_tasks(tmp_path, monkeypatch, capsys):
    def list_here(url: str) -> tuple[int, str, str]:
        monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "home"))
        monkeypatch.setenv(SETTING, url)
        code = run_command(("task", "list", "--json"))
        captured = capsys.readouterr()
        return code, captured.out, " ".join(captured.err.split())

    return list_here


def test_lists_the_tasks_of_a_new_database(list_tasks, postgresql_url, tmp_path):
    assert list_tasks(postgresql_url)[0] == 0
    assert not (tmp_path / "home" / "ledger.sqlite").exists()


def test_a_ledger_that_cannot_be_reached_is_refused(list_tasks, postgresql, postgresql_url):
    database = postgresql_url.split("@/")[1].split("?")[0]
    postgresql.run("DROP ROLE IF EXISTS guest")
    postgresql.run("CREATE ROLE guest LOGIN PASSWORD 'hunter2'")
    for url, words in (
        ("postgresql+psycopg://u:hunter2@127.0.0.1:1/x", "port 1 failed: Connection refused"),
        ("postgresql+psycopg://u:hunter2@nowhere.invalid/x", "nowhere.invalid"),
        (postgresql.url("none"), 'database "none" does not exist'),
        (postgresql.url(database, "guest:hunter3"), 'password authentication failed for user "guest"'),
        (postgresql.url(database, "guest"), "no password supplied"),
        (postgresql.url(database, "guest:hunter2"), "give the user"),
        (f"{postgresql_url}&speed=high", 'invalid connection option "speed"'),
        ("postgresql+psycopg://u:hunter2@host:port/x", "no database URL"),
    ):
        code, said, refusal = list_tasks(url)
        assert (code, said) == (2, ""), refusal
        assert words in refusal
        assert SETTING in refusal
        assert "hunter" not in refusal
        assert "Traceback" not in refusal


def test_a_driver_that_is_not_installed_is_named(tmp_path):
    """In an interpreter of its own, to which the module is hidden."""
    program = "import sys; sys.modules['psycopg'] = None; from compiler_agent.main import main; main()"
    finished = subprocess.run(
        [sys.executable, "-c", program, "task", "list"],
        env={"PATH": "/usr/bin:/bin", "COMPILER_AGENT_HOME": str(tmp_path), SETTING: "postgresql://u:hunter2@h/x"},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    refusal = " ".join(finished.stderr.split())
    assert finished.returncode == 2, refusal
    assert SETTING in refusal
    assert "pip install 'compiler-agent[postgresql]'" in refusal
    assert "hunter2" not in refusal
