"""What a run needs is away for a while, one thing after the other: it waits, and ends as if nothing had been.

What fails waits between tries (`retries`, a minute at most) for half an hour, and what waits for the workflow server
for as long as that takes; `test_retries` counts the waits. Before a release each is away for a minute.
"""

import contextlib
import subprocess
import time
from pathlib import Path

import pytest

from candidates.ledger.ledger import Ledger
from tests.workflows.chaos import picture_of
from tests.workflows.null_runs import Run, undisturbed
from tests.workflows.restarted import Service, open_folder

AWAY_S = 12.0
AWAY_BEFORE_A_RELEASE_S = 60.0
RUN = Run(seed=3, hot_ops=3, candidates_per_op=40)
OPTIONS = ("--generation=4", "--measuring-s=0.02", "--source-bytes=1000")


@contextlib.contextmanager
def small_disk(folder: Path):
    """A file system of its own for what runs store; skips where none may be mounted."""
    folder.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder], capture_output=True, text=True)
    if mounted.returncode:
        pytest.skip(f"no file system can be mounted here: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=True)


@contextlib.contextmanager
def full(disk: Path):
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb") as file:
        while True:
            file.write(bytes(1 << 16))
            file.flush()
    yield
    filler.unlink()


@contextlib.contextmanager
def read_only(disk: Path):
    subprocess.run(["mount", "-o", "remount,ro", disk], check=True)
    yield
    subprocess.run(["mount", "-o", "remount,rw", disk], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("away_s", [AWAY_S, pytest.param(AWAY_BEFORE_A_RELEASE_S, marks=pytest.mark.long)])
def test_a_run_goes_on_after_each_outage(tmp_path, away_s):
    expected = undisturbed(RUN, tmp_path, OPTIONS)
    with open_folder() as folder:
        service = Service(folder, *OPTIONS)
        with small_disk(service.settings.home / "blobs") as disk, service.running():
            ledger = Ledger(service.settings.ledger_url)
            RUN.begin(service.address, ledger)
            outages = {
                "Temporal is away": service.programs["temporal"].away(),
                "PostgreSQL is away": service.programs["postgresql"].away(),
                "the disk is full": full(disk),
                "the store is read-only": read_only(disk),
            }
            for number, (outage, lasts) in enumerate(outages.items(), start=1):
                RUN.await_work(service.address, ledger, RUN.attempts * number / 5)
                with lasts:
                    time.sleep(away_s)
                assert RUN.count_attempts_when_back(ledger) < RUN.attempts, f"{outage}: it was not needed"
            RUN.await_work(service.address, ledger, None)
            found = picture_of(ledger)
            ledger.engine.dispose()
    assert found == expected
