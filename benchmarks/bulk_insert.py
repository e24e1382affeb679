"""BulkInsert: many facts at once, without the Ledger's word on each: no standings are kept up, no key is looked at."""

import json
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from sqlalchemy import Connection, Engine, Index, text

from candidates.ledger.tables import AttemptRow, Fact, MeasurementRow

_ROWS_AT_ONCE = 2000


class BulkInsert:
    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._is_sqlite = connection.dialect.name == "sqlite"
        self._rows: dict[type[Fact], list[dict[str, Any]]] = defaultdict(list)

    def add(self, kind: type[Fact], recorded_at: datetime, record: Any, **columns: Any) -> None:
        """`record` as JSON."""
        moment = f"{recorded_at:%Y-%m-%d %H:%M:%S.%f}" if self._is_sqlite else recorded_at
        rows = self._rows[kind]
        rows.append({**columns, "recorded_at": moment, "record": json.dumps(record)})
        if len(rows) == _ROWS_AT_ONCE:
            self._write(kind)

    def finish(self) -> None:
        for kind in list(self._rows):
            self._write(kind)

    def _write(self, kind: type[Fact]) -> None:
        rows = self._rows.pop(kind, [])
        if not rows:
            return
        names = list(rows[0])
        values = [tuple(row.values()) for row in rows]
        cursor = self._connection.connection.cursor()
        if self._is_sqlite:
            marks = ", ".join("?" for _ in names)
            cursor.executemany(f"INSERT INTO {kind.__tablename__} ({', '.join(names)}) VALUES ({marks})", values)
            return
        copying: Any = cursor
        with copying.copy(f"COPY {kind.__tablename__} ({', '.join(names)}) FROM STDIN") as copy:
            for row in values:
                copy.write_row(row)


@contextmanager
def bulk_insert(engine: Engine) -> Iterator[BulkInsert]:
    """One transaction; keys of other tables are trusted, and the large tables get their indexes at its end."""
    with engine.connect() as connection:
        try:
            if connection.dialect.name == "sqlite":
                for setting in ("foreign_keys=OFF", "synchronous=OFF", "cache_size=-500000"):
                    connection.connection.cursor().execute(f"PRAGMA {setting}")
            else:
                connection.execute(text("SET session_replication_role = replica"))
                connection.execute(text("SET maintenance_work_mem = '512MB'"))
            indexes = [index for kind in (AttemptRow, MeasurementRow) for index in _indexes(kind)]
            for index in indexes:
                index.drop(connection)
            rows = BulkInsert(connection)
            yield rows
            rows.finish()
            for index in indexes:
                index.create(connection)
            if connection.dialect.name == "postgresql":
                connection.execute(text("ANALYZE"))  # as autovacuum does where facts come one by one
            connection.commit()
        finally:
            # Its settings are not for those that take it from the pool after this.
            connection.invalidate()


def _indexes(kind: type[Fact]) -> list[Index]:
    indexes: set[Index] = kind.metadata.tables[kind.__tablename__].indexes
    return sorted(indexes, key=lambda index: str(index.name))
