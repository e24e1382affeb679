"""Opening the ledger's database: whole however many open it at once."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from sqlalchemy import text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session

from candidates.ledger.database import LedgerUrlError, commit_in_order, connect_database
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import ProgressRow
from candidates.run import Progress, Stage
from tests.candidates.past_searches import REQUEST

WORKERS = 8


def test_workers_that_open_a_new_ledger_at_once_all_find_it_whole(ledger_url):
    together = Barrier(WORKERS)

    def open_and_write(number: int) -> str:
        together.wait()
        return Ledger(ledger_url).open_run(REQUEST.model_copy(update={"model": f"m{number}"}), f"run-{number}")

    with ThreadPoolExecutor(WORKERS) as pool:
        opened = list(pool.map(open_and_write, range(WORKERS)))
    assert {entry.run_id for entry in Ledger(ledger_url).runs()} == set(opened)
    assert len(opened) == WORKERS


def test_whoever_opens_a_whole_ledger_waits_for_no_writer(ledger_url):
    with Session(Ledger(ledger_url).engine) as writer:
        writer.execute(text("DELETE FROM runs"))
        assert Ledger(ledger_url).runs() == ()


def test_a_user_who_may_only_write_rows_opens_a_whole_ledger(postgresql, postgresql_url):
    database = postgresql_url.split("@/")[1].split("?")[0]
    postgresql.run("DROP ROLE IF EXISTS clerk")
    postgresql.run("CREATE ROLE clerk LOGIN PASSWORD 'p'")
    clerk = postgresql.url(database, user="clerk:p")
    with pytest.raises(DatabaseError, match="permission denied"):
        Ledger(clerk)
    Ledger(postgresql_url)
    postgresql.run("GRANT SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA public TO clerk", database)
    postgresql.run("GRANT USAGE ON ALL SEQUENCES IN SCHEMA public TO clerk", database)
    assert Ledger(clerk).open_run(REQUEST, "run-1") == "run-1"
    postgresql.run("DROP OWNED BY clerk", database)


def test_a_ledger_outlives_its_connections(postgresql, postgresql_url):
    ledger = Ledger(postgresql_url)
    ledger.open_run(REQUEST, "run-1")
    postgresql.run("SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND "
                   "backend_type = 'client backend'")  # fmt: skip
    assert [entry.run_id for entry in ledger.runs()] == ["run-1"]


def test_a_server_with_a_stricter_isolation_refuses_no_writes(postgresql, postgresql_url):
    database = postgresql_url.split("@/")[1].split("?")[0]
    postgresql.run(f"ALTER DATABASE {database} SET default_transaction_isolation = 'serializable'")
    with Ledger(postgresql_url).engine.connect() as connection:
        assert connection.execute(text("SHOW transaction_isolation")).scalar_one() == "read committed"


def test_a_server_that_is_lost_without_a_word_is_given_up_within_minutes(postgresql_url):
    asked = ("keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout")
    with Ledger(f"{postgresql_url}&keepalives_count=7").engine.connect() as connection:
        driver = connection.connection.driver_connection
        said = driver.info.get_parameters()
    assert [said[name] for name in asked] == ["30", "10", "7", "60000"]


def test_progress_becomes_visible_in_its_order(ledger_url):
    """A writer that began first and is slow to commit: nobody's later line is seen before its own."""
    ledger = Ledger(ledger_url)
    ledger.open_run(REQUEST, "run-1")
    slow, quick = (Progress(stage=Stage.REPLAY, message=message) for message in ("slow", "quick"))
    with ThreadPoolExecutor(1) as pool, Session(ledger.engine) as session:
        commit_in_order(session, "run-1")
        session.add(ProgressRow(run_id="run-1", record=slow.model_dump(mode="json")))
        session.flush()
        writing = pool.submit(ledger.add_progress, "run-1", quick)
        with pytest.raises(TimeoutError):
            writing.result(timeout=0.3)
        assert ledger.progress_after("run-1", 0) == ()
        session.commit()
        writing.result()
    assert [line.progress for line in ledger.progress_after("run-1", 0)] == [slow, quick]


def test_there_is_room_for_more_rows_than_32_bits_count(ledger_url):
    ledger = Ledger(ledger_url)
    ledger.open_run(REQUEST, "run-1")
    with Session(ledger.engine) as session, session.begin():
        session.add(ProgressRow(sequence=2**40, run_id="run-1", record={"stage": "replay", "message": "late"}))
    assert ledger.progress_after("run-1", 2**33)[0].sequence == 2**40


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("", "no database URL"),
        ("ledger.sqlite", "no database URL"),
        ("postgresql://u:secret@host:port/x", "no database URL"),
        ("postgresql://u:se@cret@host/x", "%40"),
        ("mysql://u:secret@host/x", "not in mysql"),
        ("postgresql+psycopg2://u:secret@host/x", "not in postgresql[+]psycopg2"),
    ],
)
def test_a_url_of_no_ledger_is_refused_without_its_password(url, words):
    with pytest.raises(LedgerUrlError, match=words) as refused:
        connect_database(url)
    assert "cret" not in str(refused.value)
    assert refused.value.__cause__ is None
