"""open_database: an engine for the URL of a ledger whose schema is this version's; and what its databases need said
alike. Passwords in URLs appear in no message.
"""

import math
import select as readiness
import sqlite3
import time
from pathlib import Path
from typing import Any

from sqlalchemy import URL, ColumnElement, Engine, and_, create_engine, event, func, make_url, select
from sqlalchemy.exc import ArgumentError, DisconnectionError, IntegrityError
from sqlalchemy.orm import InstrumentedAttribute, Session
from sqlalchemy.pool import ConnectionPoolEntry

from candidates.ledger.faults import name_fault
from candidates.ledger.schema import Rebuild, require_schema

_DRIVERS = {
    "sqlite": "sqlite",
    "sqlite+pysqlite": "sqlite",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}
"""What a URL may name, and what it then gets: bare `postgresql` means another driver to older SQLAlchemy."""

_CONNECT_TIMEOUT_S, _LOCKED_TIMEOUT_S = 10, 30
_LOST_PEER = {
    "keepalives_idle": 30,
    "keepalives_interval": 10,
    "keepalives_count": 3,
    "tcp_user_timeout": 60_000,  # milliseconds
}
"""Of libpq. A server whose machine or network is lost says no goodbye: by Linux's own times it is waited for two hours.
"""
_ASKED_AFTER_IDLE_S = 1.0
_ADDING_IN_ORDER = 0x6C656468
"""Key of advisory locks: PostgreSQL leaves its meaning to those who share a database."""


class LedgerUrlError(Exception):
    """The URL names no database that a ledger can be in, or its driver is not installed; the user's to mend."""


def open_database(url: str, rebuild: Rebuild) -> Engine:
    """`rebuild` is called once where an older ledger is brought up, in the transaction that does it.

    Raises LedgerUrlError and RevisionRefused; LedgerAway, DiskFull and StoreReadOnly, as every later use does; and
    SQLAlchemy's DatabaseError for another fault of the database.
    """
    engine = connect_database(url)
    require_schema(engine, rebuild)
    return engine


def connect_database(url: str) -> Engine:
    """Whatever its schema. Raises LedgerUrlError."""
    place = _parse(url)
    engine = _open_sqlite(place) if place.drivername == "sqlite" else _open_postgresql(place)
    event.listen(engine, "handle_error", name_fault)
    return engine


def is_there(url: str) -> bool:
    """False for a SQLite file that opening would make. Raises LedgerUrlError."""
    place = _parse(url)
    return place.drivername != "sqlite" or Path(place.database or "").is_file()


def commit_in_order(session: Session, name: str) -> None:
    """From here to the commit no other session is in its own such part for `name`.

    PostgreSQL gives out sequence numbers before commits, in another order: a reader that goes on after the highest
    number that it saw would miss a lower one. SQLite has one writer at a time.
    """
    if session.get_bind().dialect.name == "postgresql":
        session.execute(select(func.pg_advisory_xact_lock(_ADDING_IN_ORDER, func.hashtext(name))))


def reading_of(engine: Engine) -> Engine:
    """The same connections, for statements that only read: each sees what was committed when it began, as it does in
    a transaction of READ COMMITTED, without the round trips that begin and end one."""
    return engine.execution_options(isolation_level="AUTOCOMMIT") if engine.dialect.name == "postgresql" else engine


def begins_with(column: InstrumentedAttribute[str], prefix: str) -> ColumnElement[bool]:
    """To the letter: LIKE minds case on PostgreSQL and not on SQLite."""
    return func.substr(column, 1, len(prefix)) == prefix


def id_begins_with(column: InstrumentedAttribute[str], prefix: str) -> ColumnElement[bool]:
    """Of ids in hex: no digit of theirs sorts behind a `g`, so that an index finds the range."""
    return and_(column >= prefix, column < f"{prefix}g", begins_with(column, prefix))


def is_repetition(error: IntegrityError) -> bool:
    """True for a unique key that is already there; a missing foreign key is a fault of ours and must be heard."""
    code = getattr(error.orig, "sqlite_errorname", None) or getattr(error.orig, "sqlstate", None)
    return code in ("SQLITE_CONSTRAINT_UNIQUE", "SQLITE_CONSTRAINT_PRIMARYKEY", "23505")


def _parse(url: str) -> URL:
    try:
        place = make_url(url)
    except (ArgumentError, ValueError):
        # Their messages may hold what was taken for a port: a piece of a password.
        raise LedgerUrlError(
            "it is no database URL: write sqlite:////folder/ledger.sqlite or postgresql+psycopg://user@host/database"
        ) from None
    if place.drivername not in _DRIVERS:
        raise LedgerUrlError(f"a ledger is in sqlite or in postgresql+psycopg, not in {place.drivername}")
    if "@" in (place.host or ""):
        raise LedgerUrlError("its user or password has an @: write it as %40")
    return place.set(drivername=_DRIVERS[place.drivername])


def _open_sqlite(place: URL) -> Engine:
    if place.database:
        Path(place.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(place)

    @event.listens_for(engine, "connect")
    def configure(connection: Any, _: Any) -> None:
        # Readers (the progress display) must not block the writer; workers wait for each other instead of failing.
        connection.execute(f"PRAGMA busy_timeout={_LOCKED_TIMEOUT_S * 1000}")
        _use_wal(connection)
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


def _use_wal(connection: sqlite3.Connection) -> None:
    """While one process changes a new file's journal, SQLite tells others at once that it is locked, and lets none of
    them wait."""
    deadline_s = time.monotonic() + _LOCKED_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode=WAL")
        except sqlite3.OperationalError as error:
            if not error.sqlite_errorname.startswith("SQLITE_BUSY") or time.monotonic() > deadline_s:
                raise
            time.sleep(0.01)
        else:
            return


def _open_postgresql(place: URL) -> Engine:
    defaults: dict[str, Any] = {"client_encoding": "utf8", "connect_timeout": _CONNECT_TIMEOUT_S, **_LOST_PEER}
    try:
        engine = create_engine(
            place,
            connect_args={name: value for name, value in defaults.items() if name not in place.query},
            # A server may set a stricter level, whose conflicts would have to be tried again.
            isolation_level="READ COMMITTED",
        )
    except ImportError as error:
        raise LedgerUrlError(
            f"PostgreSQL's driver cannot be imported ({error}): pip install 'compiler-agent[postgresql]'"
        ) from error
    _ask_idle_connections(engine)
    return engine


def _ask_idle_connections(engine: Engine) -> None:
    """A server that was restarted has closed what lies in the pool; to ask each time would double the round trips."""

    @event.listens_for(engine, "checkin")
    def note(connection: Any, record: ConnectionPoolEntry) -> None:
        record.info["idle_since_s"] = time.monotonic()

    @event.listens_for(engine, "checkout")
    def ask(connection: Any, record: ConnectionPoolEntry, _: Any) -> None:
        is_fresh = time.monotonic() - record.info.get("idle_since_s", math.inf) < _ASKED_AFTER_IDLE_S
        # What has nothing to say was not closed, unless the network lost it.
        if is_fresh and not _has_word(connection.fileno()):
            return
        try:
            engine.dialect.do_ping(connection)
        except engine.dialect.loaded_dbapi.Error as error:
            raise DisconnectionError("the server has closed it") from error


def _has_word(socket: int) -> bool:
    asked = readiness.poll()
    asked.register(socket, readiness.POLLIN)
    return bool(asked.poll(0))
