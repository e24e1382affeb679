"""The schema of ledgers: made by revisions, brought up from older ones with every fact, refused where it is newer."""

import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import create_engine, inspect, text

from candidates.ledger import standing_rows
from candidates.ledger.database import connect_database
from candidates.ledger.find_standings import Filters, find_standings
from candidates.ledger.ledger import Ledger
from candidates.ledger.schema import HEAD, RevisionRefused, migrate
from candidates.ledger.standings import rebuild
from candidates.ledger.tables import Table
from candidates.standing import State
from tests.candidates.ledger.test_standings import NOBODY
from tests.candidates.past_searches import REQUEST

MIGRATIONS = Path(standing_rows.__file__).with_name("migrations")
OLD = (Path(__file__).parent / "before_revisions.sql").read_text()
OPENING = "import sys; from candidates.ledger.ledger import Ledger; print(Ledger(sys.argv[1]).count_runs())"


def facts(path: Path) -> dict[str, list[dict[str, object]]]:
    with closing(sqlite3.connect(path)) as connection:
        connection.row_factory = sqlite3.Row
        names = [row["name"] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        return {name: [dict(row) for row in connection.execute(f"SELECT * FROM {name}")] for name in names}


@pytest.fixture
def old_file(tmp_path):
    path = tmp_path / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD)
    return path


def make_old(url: str, *, is_stamped: bool) -> None:
    """A database of the first revision with a run, or one from before there were revisions."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with connect_database(url).begin() as connection:
        config.attributes["connection"] = connection
        command.upgrade(config, "0001")
        row = {"run_id": "run-1", "request_digest": REQUEST.digest, "record": REQUEST.model_dump_json()}
        connection.execute(text("INSERT INTO runs (run_id, request_digest, record) VALUES (:run_id, :request_digest, "
                                "CAST(:record AS json))"), row)  # fmt: skip
        if not is_stamped:
            for name in ("TABLE alembic_version", "TABLE standings", "TABLE webhook_attempts", "INDEX ix_tasks_op"):
                connection.execute(text(f"DROP {name}"))


def differences(engine) -> list[object]:
    with engine.connect() as connection:
        context = MigrationContext.configure(connection, opts={"compare_type": True, "compare_server_default": True})
        return compare_metadata(context, Table.metadata)


def test_the_last_revision_is_the_one_that_this_version_works_with():
    assert ScriptDirectory(str(MIGRATIONS)).get_heads() == [HEAD]


def test_the_schema_that_revisions_make_is_that_of_the_models(ledger_url):
    assert differences(Ledger(ledger_url).engine) == []


def test_a_file_from_before_revisions_is_brought_up_with_every_fact(old_file):
    before = facts(old_file)
    ledger = Ledger(f"sqlite:///{old_file}")
    after = facts(old_file)
    assert {name: after[name] for name in before} == before
    assert differences(ledger.engine) == []
    shown = find_standings(ledger, Filters(states=tuple(State)), serving=NOBODY).standings
    assert {standing.state for standing in shown} == {State.WON, State.REJECTED}
    assert facts(old_file.with_name(f"ledger.sqlite.before-{HEAD}")) == before


@pytest.mark.slow
def test_processes_that_open_an_old_file_at_once_all_find_it_whole(old_file):
    opening = [
        subprocess.Popen([sys.executable, "-c", OPENING, f"sqlite:///{old_file}"], stdout=subprocess.PIPE)
        for _ in range(3)
    ]
    assert [each.communicate()[0] for each in opening] == [b"1\n"] * 3
    assert differences(create_engine(f"sqlite:///{old_file}")) == []


def test_what_cannot_be_brought_up_is_refused_and_left_as_it_was(old_file):
    """A build's end-to-end figures from before its gates asked for all that they ask for now."""
    with closing(sqlite3.connect(old_file)) as connection, connection:
        connection.execute(
            "INSERT INTO stages (run_id, stage, record) VALUES ('run-1', 'end_to_end', '{\"build_id\": \"build-1\"}')"
        )
    before = facts(old_file)
    with pytest.raises(RevisionRefused, match="records of an unfinished version"):
        Ledger(f"sqlite:///{old_file}")
    assert facts(old_file) == before
    assert [path.name for path in old_file.parent.glob("*.before-*")] == []


@pytest.mark.parametrize("before", [None, "0001"])
def test_an_older_database_is_brought_up_by_command_alone(postgresql_url, before):
    make_old(postgresql_url, is_stamped=before is not None)
    with pytest.raises(RevisionRefused, match="compiler-agent ledger migrate"):
        Ledger(postgresql_url)
    engine = connect_database(postgresql_url)
    assert not inspect(engine).has_table("pruned_blobs")
    made = migrate(engine, rebuild)
    assert (made.before, made.after, made.copy) == (before, HEAD, None)
    assert [entry.run_id for entry in Ledger(postgresql_url).runs()] == ["run-1"]
    assert differences(engine) == []
    assert migrate(engine, rebuild).before == HEAD


def test_a_newer_ledger_is_refused(ledger_url):
    with Ledger(ledger_url).engine.begin() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(RevisionRefused, match="revision 9999, which this version"):
        Ledger(ledger_url)


@pytest.mark.parametrize("columns", ["id INTEGER", "sequence INTEGER, recorded_at TEXT, record TEXT, task_id TEXT"])
def test_a_database_of_something_else_is_refused(ledger_url, columns):
    engine = create_engine(connect_database(ledger_url).url)
    with engine.begin() as connection:
        connection.execute(text(f"CREATE TABLE tasks ({columns})"))
    with pytest.raises(RevisionRefused, match=r"its table tasks has other columns|ledger migrate"):
        Ledger(ledger_url)
    with pytest.raises(RevisionRefused, match="its table tasks has other columns"):
        migrate(engine, rebuild)
    assert inspect(engine).get_table_names() == ["tasks"]


def test_a_ledger_may_share_its_database_with_tables_of_others(ledger_url):
    engine = create_engine(connect_database(ledger_url).url)
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE somebody_elses (id INTEGER)"))
    Ledger(ledger_url)
    assert inspect(engine).has_table("somebody_elses")
