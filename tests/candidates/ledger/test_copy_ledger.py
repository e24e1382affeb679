"""Ledgers that move from one database to another: every row as it was, or none; and checks that tell what is wrong."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing

import pytest
from sqlalchemy import create_engine, insert, select, text
from sqlalchemy.exc import SQLAlchemyError

from candidates.ledger.blobs import BlobStore
from candidates.ledger.check import check_blobs, check_ledger
from candidates.ledger.copy_ledger import LedgerNotEmpty, copy_ledger
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import DoesNotFit, ProgressRow, RunRow, Table, TaskRow, in_utc
from candidates.run import Progress, Stage
from tests.candidates.ledger import told_facts
from tests.candidates.past_searches import REQUEST, attempt, double_task

LINE = Progress(stage=Stage.REPLAY, message="line")
COPYING = """
import sys
from candidates.ledger.copy_ledger import copy_ledger
from candidates.ledger.ledger import Ledger
copy_ledger(Ledger(sys.argv[1]).engine, Ledger(sys.argv[2]).engine)
"""


def filled(url: str) -> Ledger:
    ledger = Ledger(url)
    told_facts.promote(ledger, "run-1")
    told_facts.retract(ledger)
    task = double_task()
    ledger.put_task(task)
    for source in ("void kernel() {}", "void kernel(\0\u2028) {}"):
        tried = attempt(source, is_accepted=False, note="naïve \0")
        ledger.put_candidate(tried.proposal.candidate)
        ledger.put_attempt("run-1", task.id, tried)
    ledger.add_progress("run-1", LINE)
    return ledger


def rows(ledger: Ledger) -> dict[str, list[dict[str, object]]]:
    with ledger.engine.connect() as connection:
        return {
            table.name: [
                {name: in_utc(value) if name == "recorded_at" else value for name, value in row.items()}
                for row in connection.execute(select(table).order_by(*table.primary_key)).mappings()
            ]
            for table in Table.metadata.sorted_tables
        }


@pytest.fixture
def sqlite_url(tmp_path):
    return f"sqlite:///{tmp_path / 'other.sqlite'}"


@pytest.mark.parametrize("direction", ["there", "back"])
def test_every_row_is_taken_over_as_it_was(ledger_url, sqlite_url, direction):
    source_url, target_url = (ledger_url, sqlite_url) if direction == "back" else (sqlite_url, ledger_url)
    source = filled(source_url)
    target = Ledger(target_url)
    copied = copy_ledger(source.engine, target.engine)
    assert rows(target) == rows(source)
    assert {name: len(found) for name, found in rows(source).items()} == dict(copied)


def test_facts_go_on_behind_those_that_were_taken_over(ledger_url, sqlite_url):
    source = filled(sqlite_url)
    with source.engine.begin() as connection:
        connection.execute(insert(ProgressRow).values(sequence=2**40, run_id="run-1", record=LINE.model_dump()))
    target = Ledger(ledger_url)
    copy_ledger(source.engine, target.engine)
    target.add_progress("run-1", LINE)
    assert target.progress_after("run-1", 2**40)[0].sequence == 2**40 + 1
    target.put_attempt("run-1", double_task().id, attempt("void kernel() {}"))


def test_a_ledger_with_facts_takes_no_other_over(ledger_url, sqlite_url):
    target = filled(ledger_url)
    before = rows(target)
    with pytest.raises(LedgerNotEmpty, match="has candidates"):
        copy_ledger(filled(sqlite_url).engine, target.engine)
    assert rows(target) == before


def test_what_no_column_may_hold_is_named_and_nothing_taken_over(ledger_url, sqlite_url):
    source = filled(sqlite_url)
    with source.engine.begin() as connection:
        connection.execute(insert(TaskRow.__table__).values(task_id="t", op="o" * 300, record={}))
    target = Ledger(ledger_url)
    with pytest.raises(DoesNotFit, match=r"tasks\.op of the ledger takes 256 characters"):
        copy_ledger(source.engine, target.engine)
    assert not any(rows(target).values())


@pytest.mark.slow
def test_a_process_that_is_killed_takes_nothing_over(ledger_url, sqlite_url):
    source = filled(sqlite_url)
    lines = [{"run_id": "run-1", "record": LINE.model_dump(mode="json")}] * 50_000
    with source.engine.begin() as connection:
        connection.execute(insert(ProgressRow), lines)
    target = Ledger(ledger_url)
    copying = subprocess.Popen([sys.executable, "-c", COPYING, sqlite_url, ledger_url])
    while not _is_being_written(ledger_url) and copying.poll() is None:
        time.sleep(0.01)
    assert copying.poll() is None
    copying.kill()
    copying.wait()
    assert not any(rows(target).values())
    copy_ledger(source.engine, target.engine)
    assert len(rows(target)["progress"]) == len(lines) + 1


def _is_being_written(url: str) -> bool:
    """Whether somebody else holds its lock."""
    engine = create_engine(url)
    try:
        with engine.begin() as connection:
            if engine.dialect.name == "sqlite":
                connection.exec_driver_sql("PRAGMA busy_timeout=0")
                connection.exec_driver_sql("BEGIN IMMEDIATE")
            else:
                connection.execute(text("LOCK TABLE runs IN SHARE ROW EXCLUSIVE MODE NOWAIT"))
    except SQLAlchemyError:
        return True
    finally:
        engine.dispose()
    return False


def test_a_ledger_whose_rows_fit_together_is_whole(ledger_url, tmp_path):
    state = check_ledger(filled(ledger_url).engine, tmp_path / "cache")
    assert state.is_whole
    assert state.rows["attempts"] == 2
    assert list((tmp_path / "cache").iterdir()) == []


def test_standings_that_are_not_what_the_facts_give_are_told(ledger_url, tmp_path):
    ledger = filled(ledger_url)
    with ledger.engine.begin() as connection:
        connection.execute(text("UPDATE standings SET state = 'won'"))
        connection.execute(text("DELETE FROM found_wrong"))
    assert check_ledger(ledger.engine, tmp_path).stale == ("standings",)


def test_rows_without_what_they_name_are_told(tmp_path):
    ledger = filled(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.engine.dispose()
    with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as connection, connection:
        connection.execute(f"DELETE FROM {RunRow.__tablename__}")
    state = check_ledger(ledger.engine, tmp_path)
    assert "attempts: 2 without runs.run_id" in state.orphans
    assert not state.is_whole


def test_blobs_that_facts_name_are_read(ledger_url, tmp_path):
    ledger, blobs = filled(ledger_url), BlobStore(tmp_path / "blobs")
    digests = [blobs.put(content) for content in (b"one", b"two")]
    task = double_task()
    for digest, source in zip(digests, ("void kernel() {}", "void kernel(\0\u2028) {}"), strict=True):
        ledger.put_artifact(task.id, attempt(source).proposal.candidate.id, digest)
    state = check_blobs(ledger.engine, blobs)
    assert (state.named, state.faults) == (2, 0)
    (tmp_path / "blobs" / digests[0][:2] / digests[0]).write_bytes(b"won")
    (tmp_path / "blobs" / digests[1][:2] / digests[1]).unlink()
    state = check_blobs(ledger.engine, blobs)
    assert (state.named, state.faults) == (2, 2)
    assert {word in " ".join(state.shown) for word in (*digests, "is not in", "promises")} == {True}


def test_the_request_of_a_run_is_found_in_the_copy(ledger_url, sqlite_url):
    source = Ledger(sqlite_url)
    source.open_run(REQUEST, "run-1")
    target = Ledger(ledger_url)
    copy_ledger(source.engine, target.engine)
    assert target.open_run(REQUEST, "run-2") == "run-1"
