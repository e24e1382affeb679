"""A PostgreSQL server of the tests' own, over a folder that ends with it, with one database for each test."""

import itertools
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks import postgresql
from benchmarks.postgresql import NoPostgresql

__all__ = ["NoPostgresql", "PostgresqlServer", "postgresql_server"]

SETTINGS = {
    "max_connections": "200",
    "timezone": "Asia/Kathmandu",  # neither UTC nor a whole number of hours from it
    # Nobody reads these databases after a crash.
    "fsync": "off",
    "synchronous_commit": "off",
    "full_page_writes": "off",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "autovacuum": "off",
}
LOGIN_RULES = "local all postgres trust\nlocal all all scram-sha-256\n"


class PostgresqlServer(postgresql.PostgresqlServer):
    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._numbers = itertools.count(1)

    @contextmanager
    def database(self) -> Iterator[str]:
        """The URL of an empty one, that ends with its connections."""
        name = f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name}")
        try:
            yield self.url(name)
        finally:
            self.run(f"DROP DATABASE {name} WITH (FORCE)")


@contextmanager
def postgresql_server() -> Iterator[PostgresqlServer]:
    """Raises NoPostgresql with the reason. Its folder is no temporary one of pytest's: those are closed to others."""
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        with postgresql.postgresql_server(folder, SETTINGS, LOGIN_RULES):
            yield PostgresqlServer(folder)
    finally:
        shutil.rmtree(folder)
