"""`compiler-agent ledger`, as a person types it."""

import json
import shutil

import pytest
from sqlalchemy import text

from candidates.ledger.ledger import Ledger
from candidates.ledger.schema import HEAD
from compiler_agent.main import run_command
from tests.candidates.ledger.test_copy_ledger import filled, rows
from tests.candidates.ledger.test_schema import OLD, make_old, sqlite3


@pytest.fixture
def say(tmp_path, ledger_url, monkeypatch, capsys):
    """Runs a command on the ledger: exit code, document or None, and what it told the person."""
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COMPILER_AGENT_LEDGER", ledger_url)
    monkeypatch.delenv("COMPILER_AGENT_BLOBS", raising=False)

    def run(*arguments: str):
        code = run_command(["ledger", *arguments, "--json"])
        output = capsys.readouterr()
        return int(code), json.loads(output.out) if output.out else None, " ".join(output.err.split())

    return run


def test_standings_that_went_astray_are_told_and_mended(say, ledger_url):
    ledger = filled(ledger_url)
    before = rows(ledger)["standings"]
    assert say("check", "--blobs")[:1] == (0,)
    with ledger.engine.begin() as connection:
        connection.execute(text("DELETE FROM standings"))
    code, state, _ = say("check")
    assert (code, state["is_whole"], state["stale"]) == (1, False, ["standings"])
    assert say("rebuild")[:2] == (0, {"standings": len(before)})
    assert say("check")[0] == 0
    assert [line | {"number": 0} for line in rows(ledger)["standings"]] == [line | {"number": 0} for line in before]


def test_an_older_database_says_which_command_brings_it_up(say, postgresql_url, monkeypatch):
    monkeypatch.setenv("COMPILER_AGENT_LEDGER", postgresql_url)
    make_old(postgresql_url, is_stamped=True)
    code, _, told = say("check")
    assert code == 2
    assert "compiler-agent ledger migrate" in told
    assert say("migrate")[:2] == (0, {"before": "0001", "after": HEAD, "copy": None})
    assert say("migrate")[1]["before"] == HEAD
    assert say("check")[0] == 0


def test_a_file_is_taken_over_by_its_path_or_its_url(say, ledger_url, tmp_path):
    """One of an older release too, of which a copy stays."""
    with sqlite3.connect(tmp_path / "old.sqlite") as connection:
        connection.executescript(OLD)
    connection.close()
    shutil.copy(tmp_path / "old.sqlite", tmp_path / "same.sqlite")
    code, document, _ = say("import", str(tmp_path / "old.sqlite"))
    assert code == 0
    assert document["rows"]["attempts"] == 2
    assert Ledger(ledger_url).count_runs() == 1
    assert (tmp_path / f"old.sqlite.before-{HEAD}").exists()
    code, _, told = say("import", f"sqlite:///{tmp_path / 'same.sqlite'}")
    assert code == 2
    assert "name a database without a ledger" in told


@pytest.mark.parametrize("source", ["nowhere.sqlite", "sqlite:///nowhere.sqlite", "sqlite+pysqlite:///nowhere.sqlite"])
def test_a_file_that_is_not_there_is_not_made(say, tmp_path, monkeypatch, source):
    monkeypatch.chdir(tmp_path)
    code, _, told = say("import", source)
    assert code == 2
    assert "nowhere.sqlite is not there" in told
    assert not (tmp_path / "nowhere.sqlite").exists()
