"""make_backup: a folder from which a home can be made again; `restore` does that.

The ledger in it is of one moment, whatever database it is in; blobs are copied after it, so that all that it names are
there. Left out: caches, logs, models' weights, which are made or fetched again, the state of Temporal, since a run goes
on from the ledger, and `keys`, unless they are asked for.
"""

import contextlib
import errno
import hashlib
import os
import secrets
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime
from importlib import metadata
from pathlib import Path

from candidates.file_lock import hold_lock
from candidates.ledger import standings
from candidates.ledger.blobs import BlobError, BlobStore
from candidates.ledger.copy_ledger import copy_ledger
from candidates.ledger.database import is_there, open_database
from candidates.ledger.schema import HEAD
from candidates.record import Record
from candidates.serving_build.build import UNFINISHED, builds_folder
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.signing import named_signers
from candidates.store_faults import named_faults
from candidates.whole_file import PARTIAL, write_whole
from compiler_agent.blob_store import open_blobs
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings

MANIFEST = "backup.json"
LEDGER, BLOBS, BUILDS, HOME, KEYS = "ledger.sqlite", "blobs", "builds", "home", "keys"
"""What lies where in a backup; under `home` what goes into a home as it is."""

_FOLDERS = ("pull_requests", "counters", "traffic", "digests")
_BLOCK_BYTES = 1 << 20


class SavedFile(Record):
    sha256: str
    size_bytes: int


class BackupManifest(Record):
    version: str
    """Of this project, that made it."""
    revision: str
    """Of the ledger's schema."""
    made_at: str
    """ISO 8601, UTC."""
    rows: dict[str, int]
    """By table."""
    live_build: str | None
    signers: tuple[str, ...]
    """Public keys whose signatures the live build bears."""
    files: dict[str, SavedFile]


def make_backup(settings: Settings, target: Path, *, with_keys: bool) -> BackupManifest:
    """`target` appears whole or not at all. Raises UserFault where it is there or the home is not, BlobError for a
    damaged blob."""
    if target.exists():
        raise UserFault(_taken(target))
    if not (settings.home.is_dir() and is_there(settings.ledger_url)):  # to open a ledger would make an empty one
        raise UserFault(f"there is no ledger of {settings.home}: set COMPILER_AGENT_HOME to a home that has one")
    with named_faults():
        target.parent.mkdir(parents=True, exist_ok=True)
        unfinished = target.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
        unfinished.mkdir(mode=0o700)
        try:
            rows = _save_ledger(settings, unfinished / LEDGER)
            _save_blobs(open_blobs(settings), unfinished / BLOBS)
            live, signers = _save_builds(settings.home, unfinished / BUILDS)
            _save_home(settings.home, unfinished / HOME)
            if with_keys and (settings.home / KEYS).is_dir():
                copy_folder(settings.home / KEYS, unfinished / KEYS)
            manifest = BackupManifest(
                version=metadata.version("compiler-agent"),
                revision=HEAD,
                made_at=datetime.now(UTC).isoformat(timespec="seconds"),
                rows=rows,
                live_build=live,
                signers=signers,
                files={name: saved_file(unfinished / name) for name in files_in(unfinished)},
            )
            write_whole(unfinished / MANIFEST, manifest.model_dump_json(indent=1).encode())
            os.sync()
            try:
                unfinished.rename(target)
            except OSError as error:
                if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                    raise
                raise UserFault(_taken(target)) from error
        finally:
            shutil.rmtree(unfinished, ignore_errors=True)
    return manifest


def _taken(target: Path) -> str:
    return f"{target} is there already: name a folder that is not"


def copy_folder(source: Path, target: Path, *, is_changing: bool = False) -> None:
    """With its times; not what is being written or locked, and of one that is changing not what has gone since it was
    listed. Raises OSError with the first file that could not be."""
    places = []
    for place, folders, names in os.walk(source):
        folders[:] = [name for name in folders if not name.startswith(PARTIAL)]
        there = target / Path(place).relative_to(source)
        there.mkdir(parents=True, exist_ok=True)
        for name in names:
            if not name.startswith((".lock", PARTIAL)):
                with contextlib.suppress(*((FileNotFoundError,) if is_changing else ())):
                    shutil.copy2(Path(place) / name, there / name)
        places.append((place, there))
    for place, there in reversed(places):
        with contextlib.suppress(*((FileNotFoundError,) if is_changing else ())):
            shutil.copystat(place, there)


def files_in(folder: Path) -> Iterator[str]:
    """But for the manifest."""
    for place, _, names in os.walk(folder):
        for name in names:
            path = (Path(place) / name).relative_to(folder).as_posix()
            if path != MANIFEST:
                yield path


def saved_file(path: Path) -> SavedFile:
    """Of the bytes that are there. Raises OSError."""
    digest, size_bytes = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
            size_bytes += len(block)
    return SavedFile(sha256=digest.hexdigest(), size_bytes=size_bytes)


def _save_ledger(settings: Settings, path: Path) -> dict[str, int]:
    copy = open_database(f"sqlite:///{path}", standings.rebuild)
    try:
        rows = dict(copy_ledger(open_database(settings.ledger_url, standings.rebuild), copy))
        with copy.connect() as connection:
            # One file, that is whole without those that SQLite keeps beside it.
            connection.exec_driver_sql("PRAGMA journal_mode=DELETE")
    finally:
        copy.dispose()
    return rows


def _save_blobs(blobs: BlobStore, folder: Path) -> None:
    saved = BlobStore(folder)
    for blob in blobs.list():
        try:
            saved.put(blobs.get(blob.digest))
        except BlobError:
            if blobs.keep(blob.digest):  # else it was pruned meanwhile
                raise


def _save_builds(home: Path, folder: Path) -> tuple[str | None, tuple[str, ...]]:
    """The live one, and who signed it. Nobody moves the pointer or collects builds meanwhile."""
    builds = builds_folder(home)
    folder.mkdir()
    if not builds.is_dir():
        return None, ()
    store = BuildStore(home)
    with hold_lock(builds / ".lock"):
        for path in builds.iterdir():
            if path.is_symlink() or path.name.startswith((UNFINISHED, ".")):
                continue
            if path.is_dir():
                copy_folder(path, folder / path.name)
            else:
                shutil.copy2(path, folder / path.name)
        live = store.current()
        return live, () if live is None else named_signers(builds / live)


def _save_home(home: Path, folder: Path) -> None:
    folder.mkdir()
    for path in sorted(home.glob("*.toml")):  # settings; secrets are in none of them
        shutil.copy2(path, folder / path.name)
    for name in _FOLDERS:
        if (home / name).is_dir():
            copy_folder(home / name, folder / name, is_changing=True)
