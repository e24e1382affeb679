"""Full disks, stores that only read, databases that are away: named, nothing half-written, and over when they are."""

import os
import shutil
import sqlite3
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from benchmarks.postgresql import NoPostgresql, postgresql_server
from candidates.candidate import Candidate
from candidates.ledger.blobs import BlobStore
from candidates.ledger.check import check_ledger
from candidates.ledger.copy_ledger import copy_ledger
from candidates.ledger.faults import LedgerAway
from candidates.ledger.ledger import Ledger
from candidates.ledger.schema import HEAD
from candidates.run import Progress, Stage
from candidates.serving_build.build import write_build
from candidates.serving_build.builds import BuildStore
from candidates.store_faults import DiskFull, StoreReadOnly
from compiler_agent.backup import make_backup
from compiler_agent.settings import read_settings
from compiler_agent.user_faults import as_user_fault
from tests.candidates.ledger.test_schema import OLD
from tests.candidates.past_searches import REQUEST
from tests.candidates.serving_build.tiny_tasks import local_device
from tests.postgresql_server import LOGIN_RULES, SETTINGS

MIB = 1 << 20


class Disk:
    """A file system of a few MiB."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.filler = folder / "filler"

    def fill(self, free_bytes: int = 0) -> None:
        """Until so much is free; what is not there is taken for a page."""
        left = os.statvfs(self.folder)
        room = left.f_bavail * left.f_frsize - free_bytes
        with self.filler.open("ab") as file:
            file.write(b"\0" * max(0, room))

    def free(self) -> None:
        self.filler.unlink(missing_ok=True)

    def only_read(self, *, is_so: bool) -> None:
        _mount("-o", f"remount,{'ro' if is_so else 'rw'}", str(self.folder))

    def files(self) -> set[str]:
        return {str(path.relative_to(self.folder)) for path in self.folder.rglob("*") if path.is_file()}


def _mount(*arguments: str) -> None:
    subprocess.run(["mount", *arguments], check=True, capture_output=True)


@pytest.fixture
def disk(tmp_path) -> Iterator[Disk]:
    folder = tmp_path / "disk"
    folder.mkdir()
    try:
        _mount("-t", "tmpfs", "-o", f"size={8 * MIB}", "tmpfs", str(folder))
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("no small file system can be mounted here")
    try:
        yield Disk(folder)
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def candidate(number: int) -> Candidate:
    return Candidate(language="cpp", source=f"// {number} " + "x" * 100_000)


def test_a_blob_on_a_full_disk_is_not_there_until_there_is_room(disk):
    blobs, content = BlobStore(disk.folder / "blobs"), b"x" * MIB
    kept = blobs.put(b"kernel")
    disk.fill(MIB // 2)
    before = disk.files()
    with pytest.raises(DiskFull) as refused:
        blobs.put(content)
    assert "the disk is full" in as_user_fault(refused.value)
    assert disk.files() == before
    assert blobs.get(kept) == b"kernel"
    disk.free()
    assert blobs.get(blobs.put(content)) == content


def test_a_ledger_on_a_full_disk_keeps_what_it_has_and_goes_on_when_there_is_room(disk, tmp_path):
    ledger = Ledger(f"sqlite:///{disk.folder / 'ledger.sqlite'}")
    ledger.open_run(REQUEST, "run-1")
    disk.fill(MIB // 2)
    written: list[Candidate] = []
    with pytest.raises(DiskFull) as refused:  # noqa: PT012  (which one is refused, the disk decides)
        for number in range(100):
            ledger.put_candidate(candidate(number))
            written.append(candidate(number))
    assert "the disk is full (the ledger in " in as_user_fault(refused.value)
    assert [ledger.candidate(each.id) for each in written] == written
    refused_one = candidate(len(written))
    disk.free()
    ledger.put_candidate(refused_one)
    assert ledger.candidate(refused_one.id) == refused_one
    assert check_ledger(ledger.engine, tmp_path).is_whole


def test_an_old_ledger_is_not_touched_where_its_copy_has_no_room(disk):
    path = disk.folder / "ledger.sqlite"
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(OLD)
        connection.execute("PRAGMA journal_mode=WAL")
    disk.fill(100_000)  # room for what SQLite keeps beside a file, not for another one
    before, files = path.read_bytes(), disk.files()
    with pytest.raises(DiskFull):
        Ledger(f"sqlite:///{path}")
    assert path.read_bytes() == before
    assert {name for name in disk.files() if not name.endswith(("-wal", "-shm"))} == files
    disk.free()
    assert Ledger(f"sqlite:///{path}").count_runs() == 1
    assert f"ledger.sqlite.before-{HEAD}" in disk.files()


def test_a_ledger_that_does_not_fit_is_not_taken_over_in_part(disk, tmp_path):
    source = Ledger(f"sqlite:///{tmp_path / 'source.sqlite'}")
    for number in range(30):
        source.put_candidate(candidate(number))
    target = Ledger(f"sqlite:///{disk.folder / 'ledger.sqlite'}")
    disk.fill(MIB)
    with pytest.raises(DiskFull):
        copy_ledger(source.engine, target.engine)
    disk.free()
    assert copy_ledger(source.engine, target.engine)["candidates"] == 30


def test_a_build_and_a_backup_on_a_full_disk_are_not_there(disk, tmp_path):
    home = tmp_path / "home"
    settings = read_settings({"COMPILER_AGENT_HOME": str(home)})
    Ledger(settings.ledger_url)
    BlobStore(home / "blobs").put(b"x" * MIB)
    disk.fill(MIB // 2)
    before = disk.files()
    with pytest.raises(DiskFull):
        make_backup(settings, disk.folder / "saved", with_keys=False)
    disk.fill()
    with pytest.raises(DiskFull):
        write_build(disk.folder, "tiny", local_device(), [])
    assert disk.files() == before
    assert BuildStore(disk.folder).paths() == []
    disk.free()
    make_backup(settings, disk.folder / "saved", with_keys=False)
    assert BuildStore(disk.folder).show(write_build(disk.folder, "tiny", local_device(), []).id)


def test_a_store_that_only_reads_is_read_and_says_so_when_it_is_written(disk):
    blobs = BlobStore(disk.folder / "blobs")
    kept = blobs.put(b"kernel")
    disk.only_read(is_so=True)
    assert blobs.get(kept) == b"kernel"
    assert blobs.put(b"kernel") == kept
    with pytest.raises(StoreReadOnly) as refused:
        blobs.put(b"another")
    assert "cannot write" in as_user_fault(refused.value)
    disk.only_read(is_so=False)
    assert blobs.get(blobs.put(b"another")) == b"another"


def test_a_ledger_that_may_only_be_read_says_so_when_it_is_written(tmp_path):
    path = tmp_path / "ledger.sqlite"
    Ledger(f"sqlite:///{path}").open_run(REQUEST, "run-1")
    ledger = Ledger(f"sqlite:///file:{path}?mode=ro&uri=true")
    assert ledger.count_runs() == 1
    with pytest.raises(StoreReadOnly) as refused:
        ledger.put_candidate(candidate(1))
    assert "cannot write the ledger in " in as_user_fault(refused.value)
    Ledger(f"sqlite:///{path}").put_candidate(candidate(1))


def test_a_ledger_that_others_write_to_for_too_long_is_away(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    with ledger.engine.connect() as impatient:
        impatient.exec_driver_sql("PRAGMA busy_timeout=10")
        with closing(sqlite3.connect(tmp_path / "ledger.sqlite")) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(LedgerAway):
                impatient.exec_driver_sql("INSERT INTO runs (run_id, request_digest, record) VALUES ('a', 'b', '{}')")


@pytest.mark.slow
def test_a_database_that_was_stopped_is_away_and_back_with_the_same_ledger():
    folder = Path(tempfile.mkdtemp(prefix="postgresql-"))
    line = Progress(stage=Stage.REPLAY, message="line")
    try:
        with postgresql_server(folder, SETTINGS | {"fsync": "on"}, LOGIN_RULES) as server:
            url = server.url("postgres")
            ledger = Ledger(url)
            ledger.open_run(REQUEST, "run-1")
            idle, busy = ledger.engine.connect(), ledger.engine.connect()
            busy.exec_driver_sql("SELECT 1")
            idle.close()
        for ask in (
            lambda: ledger.put_candidate(candidate(1)),
            lambda: ledger.add_progress("run-1", line),
            ledger.count_runs,
            lambda: busy.exec_driver_sql("SELECT 1"),
            lambda: Ledger(url),
        ):
            with pytest.raises(LedgerAway) as away:
                ask()
            assert "start the server" in as_user_fault(away.value)
            assert "xxxxx" not in str(away.value)
        busy.close()
        with postgresql_server(folder, SETTINGS | {"fsync": "on"}, LOGIN_RULES):
            assert ledger.count_runs() == 1
            ledger.put_candidate(candidate(1))
            ledger.add_progress("run-1", line)
            assert ledger.candidate(candidate(1).id) == candidate(1)
            assert len(ledger.progress_after("run-1", 0)) == 1
            ledger.engine.dispose()
    except NoPostgresql as reason:
        pytest.skip(str(reason))
    finally:
        shutil.rmtree(folder)
