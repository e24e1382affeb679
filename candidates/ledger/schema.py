"""The schema of a ledger's database: its revision, and how it comes to that of this version.

An empty database gets its tables by whoever opens it first. One of an older revision is brought up when it is opened
where it is a SQLite file, after a copy was made beside it, and by `migrate` alone where it is in PostgreSQL: workers of
the older version may be writing there. One of a newer revision is refused.
"""

import errno
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError
from sqlalchemy import Connection, Engine, func, inspect, select, text
from sqlalchemy.exc import DatabaseError
from sqlalchemy.orm import Session

from candidates.ledger.faults import LedgerAway
from candidates.ledger.tables import Table
from candidates.store_faults import DiskFull
from candidates.whole_file import PARTIAL

HEAD = "0003"
"""Of this version; the last of `migrations/versions`."""

_MIGRATING = 0x6C656467
"""Key of an advisory lock: PostgreSQL leaves its meaning to those who share a database."""
_ALEMBIC = threading.Lock()
"""Alembic keeps what it is doing in globals."""

Rebuild = Callable[[Session], None]
"""Makes again what is made from facts."""


class RevisionRefused(Exception):
    """The database has another revision than this version works with; the message says what to do."""


class Migration(NamedTuple):
    before: str | None
    """None: the ledger was empty, or from before there were revisions."""
    after: str
    copy: Path | None
    """Of a SQLite file as it was before."""


def require_schema(engine: Engine, rebuild: Rebuild) -> None:
    """Raises RevisionRefused, and SQLAlchemy's DatabaseError."""
    # Without a lock first: whoever opens a ledger that is up to date waits for nobody, and needs no right to create.
    if _revision(engine) != HEAD:
        _bring_up(engine, rebuild, is_told_to=engine.dialect.name == "sqlite")


def migrate(engine: Engine, rebuild: Rebuild) -> Migration:
    """As `require_schema`, and on PostgreSQL too; others that write there wait until it is done."""
    return _bring_up(engine, rebuild, is_told_to=True)


def _bring_up(engine: Engine, rebuild: Rebuild, *, is_told_to: bool) -> Migration:
    with alone(engine) as connection:
        before = _revision(connection)
        if before == HEAD:
            return Migration(before, HEAD, None)
        require_known(before)
        is_filled = before is not None or _has_facts(connection)
        if is_filled and not is_told_to:
            raise RevisionRefused(
                f"the ledger's tables are of revision {before or 'none'}, and this version's of {HEAD}: stop the "
                "workers, make a backup, then `compiler-agent ledger migrate`"
            )
        copy = _copy(engine) if is_filled and engine.dialect.name == "sqlite" else None
        with ExitStack() as undo:
            if copy is not None:
                undo.callback(copy.unlink)
            _upgrade(connection)
            if is_filled:
                _rebuild(connection, rebuild)
            undo.pop_all()
        return Migration(before, HEAD, copy)


@contextmanager
def alone(engine: Engine) -> Iterator[Connection]:
    """A transaction beside which nobody else makes tables or writes to those of the ledger; readers go on.

    Of processes that create the same table at once, all but one would fail.
    """
    with engine.begin() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(select(func.pg_advisory_xact_lock(_MIGRATING, 0)))
            if there := set(inspect(connection).get_table_names()) & set(Table.metadata.tables):
                connection.execute(text(f"LOCK TABLE {', '.join(sorted(there))} IN SHARE ROW EXCLUSIVE MODE"))
        else:
            connection.exec_driver_sql("BEGIN IMMEDIATE")
        yield connection


def _revision(bind: Engine | Connection) -> str | None:
    """None: it has none, being empty or from before there were any."""
    asked = text("SELECT version_num FROM alembic_version")
    if isinstance(bind, Connection):
        return bind.execute(asked).scalar() if inspect(bind).has_table("alembic_version") else None
    try:
        with bind.connect() as connection:
            return connection.execute(asked).scalar()
    except LedgerAway:
        raise
    except DatabaseError:
        if inspect(bind).has_table("alembic_version"):
            raise
        return None


def _has_facts(connection: Connection) -> bool:
    """Tables for them."""
    return not set(Table.metadata.tables).isdisjoint(inspect(connection).get_table_names())


def require_known(revision: str | None) -> None:
    """Raises RevisionRefused for one of a newer version."""
    from alembic.script import ScriptDirectory
    from alembic.util import CommandError

    if revision is None:
        return
    try:
        ScriptDirectory(str(_migrations())).get_revision(revision)
    except CommandError:
        raise RevisionRefused(
            f"the ledger's tables are of revision {revision}, which this version (revision {HEAD}) does not know: "
            "a newer version has written it; use that one, or restore a backup from before"
        ) from None


def _upgrade(connection: Connection) -> None:
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(_migrations()).replace("%", "%%"))
    with _ALEMBIC:
        command.upgrade(config, "head")


def _rebuild(connection: Connection, rebuild: Rebuild) -> None:
    try:
        with Session(connection) as session:
            rebuild(session)
            session.flush()
    except ValidationError as error:
        said = " ".join(str(error).split())[:300]
        raise RevisionRefused(
            f"the ledger has records of an unfinished version that this one cannot read ({said}): go on with the "
            "version that wrote it, or begin another ledger"
        ) from error


def _migrations() -> Path:
    return Path(__file__).with_name("migrations")


def _copy(engine: Engine) -> Path:
    """Of a SQLite file, beside it; whole, as nobody writes now."""
    path = Path(str(engine.url.database))
    copy = path.with_name(f"{path.name}.before-{HEAD}")
    unfinished = copy.with_name(f"{PARTIAL}{copy.name}-{os.getpid()}")
    try:
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(unfinished)) as target:
            source.backup(target)
        unfinished.replace(copy)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorname != "SQLITE_FULL":
            raise
        raise DiskFull(errno.ENOSPC, str(error), str(copy)) from error
    finally:
        unfinished.unlink(missing_ok=True)
    return copy
