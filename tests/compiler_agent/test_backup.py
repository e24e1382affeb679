"""`compiler-agent backup` and `restore`: the same wins and live build, or a refusal before anything is written."""

import json
import threading
from pathlib import Path

import pytest

from candidates.agent import Attempt
from candidates.candidate import Proposal
from candidates.ledger.blobs import BlobStore
from candidates.ledger.check import check_blobs
from candidates.ledger.find_standings import Filters, find_standings
from candidates.ledger.ledger import Ledger
from candidates.serving_build.build import write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.signing import make_key, public_key
from candidates.verdict import Accepted, EvidenceKind
from compiler_agent.backup import copy_folder
from compiler_agent.main import run_command
from tests.candidates.ledger import told_facts
from tests.candidates.ledger.test_copy_ledger import rows
from tests.candidates.ledger.test_standings import NOBODY
from tests.candidates.serving_build.tiny_tasks import local_device

ON_SQLITE = pytest.mark.parametrize("ledger_url", ["sqlite"], indirect=True)
SETTINGS = ("LEDGER", "BLOBS", "SIGNING_KEY", "TRUSTED_KEYS")


@pytest.fixture
def say(monkeypatch, capsys):
    """Runs a command in a home; its exit code, its document, or None where it has none, and what it told the person."""

    def run(
        home: Path, *arguments: str, ledger: str = "", **settings: str
    ) -> tuple[int, dict[str, object] | None, str]:
        for name in SETTINGS:
            monkeypatch.delenv(f"COMPILER_AGENT_{name}", raising=False)
        for name, value in ({"HOME": str(home)} | ({"LEDGER": ledger} if ledger else {}) | settings).items():
            monkeypatch.setenv(f"COMPILER_AGENT_{name}", value)
        code = run_command([*arguments, "--json"])
        output = capsys.readouterr()
        return int(code), json.loads(output.out) if output.out else None, " ".join(output.err.split())

    return run


@pytest.fixture
def home(tmp_path, ledger_url):
    """With a won kernel whose artifact is a blob, a key, and two builds of which the second is live."""
    home = tmp_path / "home"
    make_key(home)
    ledger = Ledger(ledger_url)
    told_facts.promote(ledger, "run-1")
    proposal = Proposal(candidate=told_facts.KERNEL, agent="search")
    verdict = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.0)
    attempt = Attempt(proposal=proposal, verdict=verdict, measurement=told_facts.MEASUREMENT)
    ledger.put_attempt("run-1", told_facts.TASK.id, attempt)
    ledger.put_artifact(told_facts.TASK.id, told_facts.KERNEL.id, BlobStore(home / "blobs").put(b"library"))
    for model in ("old", "new"):
        BuildStore(home).approve(write_build(home, model, local_device(), []).id, by="ann")
    (home / "models.toml").write_text("# endpoints\n")
    (home / "cache").mkdir()
    (home / "cache" / "big").write_bytes(b"x" * 1000)
    return home


def test_a_restored_home_has_the_same_wins_and_the_same_live_build(say, home, ledger_url, tmp_path):
    saved, restored, target = tmp_path / "saved", tmp_path / "restored", f"sqlite:///{tmp_path}/restored/ledger.sqlite"
    code, made, _ = say(home, "backup", str(saved), "--with-keys", ledger=ledger_url)
    assert code == 0
    assert made["live_build"] == BuildStore(home).current()
    code, found, told = say(restored, "restore", str(saved))
    assert (code, told) == (0, "")
    assert found == made
    before, after = Ledger(ledger_url), Ledger(target)
    assert rows(after) == rows(before)
    wins = [find_standings(ledger, Filters(), serving=NOBODY).standings for ledger in (before, after)]
    assert wins[0] == wins[1] != ()
    assert check_blobs(after.engine, BlobStore(restored / "blobs")).faults == 0
    old, new = BuildStore(home), BuildStore(restored)
    assert new.history() == old.history()
    assert [path.name for path in new.paths()] == [path.name for path in old.paths()]
    assert new.live() is not None, "its signature is one that the restored home trusts"
    assert public_key(restored) == public_key(home)
    assert new.rollback("bob").build_id == old.paths()[1].name
    assert (restored / "models.toml").read_text() == "# endpoints\n"
    assert not (restored / "cache").exists()


def test_a_backup_of_a_file_can_be_restored_into_a_database(say, home, ledger_url, postgresql_url, tmp_path):
    other = f"sqlite:///{tmp_path}/restored/other.sqlite"
    target = other if ledger_url == postgresql_url else postgresql_url
    say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    assert say(tmp_path / "restored", "restore", str(tmp_path / "saved"), ledger=target)[0] == 0
    assert rows(Ledger(target)) == rows(Ledger(ledger_url))


@ON_SQLITE
def test_secrets_are_in_a_backup_by_request_alone(say, home, ledger_url, tmp_path):
    secret = (home / "keys" / "signing.pem").read_bytes()
    say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    assert not any(secret in path.read_bytes() for path in (tmp_path / "saved").rglob("*") if path.is_file())
    code, found, told = say(tmp_path / "restored", "restore", str(tmp_path / "saved"))
    assert code == 0
    assert f"signed by {found['signers'][0]}, which this home does not trust" in told
    assert say(tmp_path / "restored", "builds", "list")[0] == 0


@ON_SQLITE
def test_a_target_that_is_there_is_left_alone(say, home, ledger_url, tmp_path):
    (tmp_path / "saved").mkdir()
    code, _, told = say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    assert code == 2
    assert "is there already" in told
    assert list((tmp_path / "saved").iterdir()) == []


@ON_SQLITE
def test_a_damaged_blob_is_told_and_leaves_no_backup(say, home, ledger_url, tmp_path):
    (blob,) = BlobStore(home / "blobs").list()
    (home / "blobs" / blob.digest[:2] / blob.digest).write_bytes(b"other")
    code, _, told = say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    assert code == 2
    assert "does not have the content" in told
    assert {path.name for path in tmp_path.iterdir()} <= {
        "home",
        "ledger.sqlite",
        "ledger.sqlite-wal",
        "ledger.sqlite-shm",
    }


def spoil(saved: Path) -> None:
    (saved / "ledger.sqlite").write_bytes((saved / "ledger.sqlite").read_bytes() + b"x")


def lose(saved: Path) -> None:
    next((saved / "blobs").glob("*/*")).unlink()


def add(saved: Path) -> None:
    (saved / "home" / "more.toml").write_text("")


def lose_manifest(saved: Path) -> None:
    (saved / "backup.json").unlink()


def make_newer(saved: Path) -> None:
    _change_manifest(saved, "revision", "9999")


def name_another_folder(saved: Path) -> None:
    _change_manifest(saved, "live_build", "../../../etc")


def _change_manifest(saved: Path, key: str, value: str) -> None:
    manifest = json.loads((saved / "backup.json").read_text())
    (saved / "backup.json").write_text(json.dumps(manifest | {key: value}))


def put_a_folder_for_the_manifest(saved: Path) -> None:
    lose_manifest(saved)
    (saved / "backup.json").mkdir()


@ON_SQLITE
@pytest.mark.parametrize(
    ("happens", "words"),
    [(spoil, "ledger.sqlite is not as it was written"), (lose, "is missing"), (add, "is in excess"),
     (lose_manifest, "is no whole backup"), (put_a_folder_for_the_manifest, "is no whole backup"),
     (make_newer, "a newer version has written it"), (name_another_folder, "'../../../etc' is not in it")],
)  # fmt: skip
def test_what_is_no_whole_backup_is_refused_before_anything_is_written(say, home, ledger_url, tmp_path, happens, words):
    say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    happens(tmp_path / "saved")
    code, _, told = say(tmp_path / "restored", "restore", str(tmp_path / "saved"))
    assert code == 2
    assert words in told
    assert not (tmp_path / "restored").exists()


def test_nothing_is_restored_over_what_is_there(say, home, ledger_url, tmp_path):
    say(home, "backup", str(tmp_path / "saved"), ledger=ledger_url)
    code, _, told = say(home, "restore", str(tmp_path / "saved"), ledger=ledger_url)
    assert code == 2
    assert "is not empty" in told
    code, _, told = say(tmp_path / "restored", "restore", str(tmp_path / "saved"), ledger=ledger_url)
    assert code == 2
    assert "name a database without a ledger" in told
    code, _, within = say(tmp_path / "saved" / "home" / "restored", "restore", str(tmp_path / "saved"))
    assert code == 2
    assert "lies in the backup" in within
    assert not (tmp_path / "restored").exists(), "it was refused before anything was written"


def test_of_a_home_that_is_not_there_no_backup_is_made(say, tmp_path):
    """One with a typing error in its name would be an empty ledger, night for night."""
    for home in (tmp_path / "nowhere", tmp_path / "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        code, _, told = say(home, "backup", str(tmp_path / "saved"))
        assert code == 2
        assert "there is no ledger of" in told
    assert not (tmp_path / "saved").exists()
    assert not (tmp_path / "nowhere").exists()


def test_files_that_go_while_a_folder_is_copied_are_passed_over(tmp_path):
    """As git's own do in the folder of local pull requests."""
    folder, stop = tmp_path / "folder", threading.Event()
    folder.mkdir()
    (folder / "stays").write_text("whole")

    def come_and_go() -> None:
        while not stop.is_set():
            for number in range(200):
                (folder / f"{number}").write_text("x")
            for number in range(200):
                (folder / f"{number}").unlink()

    writer = threading.Thread(target=come_and_go)
    writer.start()
    try:
        for number in range(30):
            copy_folder(folder, tmp_path / f"copy-{number}", is_changing=True)
            assert (tmp_path / f"copy-{number}" / "stays").read_text() == "whole"
    finally:
        stop.set()
        writer.join()
