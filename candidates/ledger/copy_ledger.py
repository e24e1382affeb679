"""copy_ledger: every row of one ledger into another that is empty, whatever databases they are in.

One transaction of the source is read and one of the target is written: a process that is killed leaves the target
empty, and never half a ledger that looks like a whole one. Blobs stay where they are.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, exists, func, insert, select
from sqlalchemy import Table as SqlTable

from candidates.ledger import standing_rows  # noqa: F401  (its tables)
from candidates.ledger.schema import alone
from candidates.ledger.tables import Table, in_utc, require_fit

_ROWS_AT_ONCE = 500


class LedgerNotEmpty(Exception):
    """What is there would be mixed with what comes; the message says where."""


def copy_ledger(source: Engine, target: Engine) -> Mapping[str, int]:
    """How many rows each table got. Both have this version's schema; whoever writes to the target waits.

    Rows keep their numbers, order and times. Raises LedgerNotEmpty, and DoesNotFit for what an older release wrote into
    SQLite and no column may hold.
    """
    with snapshot_of(source) as reading, alone(target) as writing:
        require_empty(writing)
        return {table.name: _copy(table, reading, writing) for table in Table.metadata.sorted_tables}


def require_empty(connection: Connection) -> None:
    """Raises LedgerNotEmpty."""
    for table in Table.metadata.sorted_tables:
        if connection.scalar(select(exists(select(table)))):
            place = connection.engine.url
            raise LedgerNotEmpty(f"the ledger in {place!r} has {table.name}: name a database without a ledger")


@contextmanager
def snapshot_of(engine: Engine) -> Iterator[Connection]:
    """All that is read from it was there at one moment; nobody waits for it."""
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection = connection.execution_options(isolation_level="REPEATABLE READ", postgresql_readonly=True)
        else:
            connection.exec_driver_sql("BEGIN")
        yield connection


def _copy(table: SqlTable, reading: Connection, writing: Connection) -> int:
    rows = reading.execution_options(yield_per=_ROWS_AT_ONCE).execute(select(table).order_by(*table.primary_key))
    copied = 0
    for part in rows.mappings().partitions():
        writing.execute(insert(table), [_as_written(table, row) for row in part])
        copied += len(part)
    _count_on(table, writing)
    return copied


def _as_written(table: SqlTable, row: Mapping[Any, Any]) -> dict[str, Any]:
    # SQLite would drop another zone than UTC, PostgreSQL read a time without one in the zone of its session.
    values = {name: in_utc(value) if isinstance(value, datetime) else value for name, value in row.items()}
    require_fit(table, values)
    return values


def _count_on(table: SqlTable, writing: Connection) -> None:
    """The next row is numbered after the last: PostgreSQL counts apart from what it is given."""
    column = table.autoincrement_column
    if column is None or writing.dialect.name != "postgresql":
        return
    counter = func.pg_get_serial_sequence(table.name, column.name)
    last = select(func.max(column)).scalar_subquery()
    writing.execute(select(func.setval(counter, func.coalesce(last, 1), last.is_not(None))))
