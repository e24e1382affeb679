"""`compiler-agent prune`: what of a home goes, as a person types it."""

import json
import os
import time
from datetime import UTC, datetime

import pytest

from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.facts import Event, PullRequestFact
from candidates.run import BuildRecord
from candidates.serving_build.build import write_build
from candidates.serving_build.builds import BuildStore
from compiler_agent.home_lock import hold_home
from compiler_agent.main import run_command
from compiler_agent.program_health import ProgramHealth, ProgramState, Service, UpHealth, write_up_health
from tests.candidates.ledger.test_prune import Past
from tests.candidates.serving_build.test_builds import age_approvals
from tests.candidates.serving_build.tiny_tasks import local_device


def age(path, days):
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


def pull_request(build_id: str, win: str, event: Event) -> PullRequestFact:
    return PullRequestFact(
        repository="r", win=win, subject=win, branch=win, op="Double", run_id="run-1", build_id=build_id,
        candidate_ids=("k",), speedup=1.2, interval=(1.1, 1.3), places=("p",), intervals=((1.1, 1.3),), files="f",
        event=event,
    )  # fmt: skip


@pytest.fixture
def past(tmp_path, monkeypatch):
    """Everything in it is 100 days old, and its run has ended."""
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path))
    for name in ("LEDGER", "BLOBS", "KEEP_BUILDS"):
        monkeypatch.delenv(f"COMPILER_AGENT_{name}", raising=False)
    past = Past(tmp_path)
    past.open_run("run-1", days=101)
    past.end_run("run-1", days=100)
    past.try_out("kernel", artifact=past.put(b"library", 100))
    (tmp_path / "logs").mkdir()
    for name, days in (("old.log", 31), ("young.log", 29)):
        (tmp_path / "logs" / name).write_text("line\n")
        age(tmp_path / "logs" / name, days)
    return past


@pytest.fixture
def prune(capsys):
    def run(*options: str) -> dict[str, object]:
        assert run_command(["prune", *options, "--json"]) == 0
        return json.loads(capsys.readouterr().out)

    return run


def test_what_was_kept_long_enough_goes(past, prune, tmp_path):
    tried = prune("--dry-run")
    assert (tmp_path / "logs" / "old.log").exists()
    assert len(past.there()) == 1
    made = prune()
    assert made == tried | {"dry_run": False}
    assert made["blobs"] == {"blobs": 1, "size_bytes": 7, "held_by": []}
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["young.log"]
    assert past.there() == set()
    assert run_command(["ledger", "check", "--blobs"]) == 0


def test_builds_that_somebody_needs_stay(past, prune, tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILER_AGENT_KEEP_BUILDS", "1")
    names = ("nobody's", "closed", "open", "of an open run", "rolled back to", "live", "newest")
    ids = {}
    for number, name in enumerate(names):
        ids[name] = write_build(tmp_path, name, local_device(), []).id
        age(tmp_path / "builds" / ids[name], 100 - number)
    for name in ("rolled back to", "live"):
        BuildStore(tmp_path).approve(ids[name], by="ann")
    age_approvals(tmp_path, 90)
    facts = PullRequestFacts(past.ledger)
    facts.add(pull_request(ids["open"], "a", Event.OPENED))
    facts.add(pull_request(ids["closed"], "b", Event.OPENED))
    facts.add(pull_request(ids["closed"], "b", Event.CLOSED))
    past.open_run("run-2")
    past.ledger.put_build("run-2", BuildRecord(id=ids["of an open run"], path="/b", task_ids=()))
    assert set(prune("--dry-run")["builds"]) == set(prune()["builds"]) == {ids["nobody's"], ids["closed"]}
    assert {path.name for path in BuildStore(tmp_path).paths()} == set(ids.values()) - {ids["nobody's"], ids["closed"]}
    assert BuildStore(tmp_path).rollback(by="bob").build_id == ids["rolled back to"]


def test_what_killed_processes_were_writing_goes_once_it_is_old(past, prune, tmp_path):
    folder = tmp_path / "blobs" / "ab"
    folder.mkdir(exist_ok=True)
    for name, days in ((".partial-old", 1), (".removed-old", 1), (".partial-young", 0)):
        (folder / name).write_bytes(b"half")
        age(folder / name, days)
    assert prune()["left_behind"] == 2
    assert [path.name for path in folder.iterdir()] == [".partial-young"]


def test_a_log_that_a_program_of_up_has_open_stays(past, prune, tmp_path):
    now = datetime.now(UTC)
    program = ProgramHealth(
        name="leaderboard", state=ProgramState.READY, since=now, pid=1, restarts=0, last_exit=None,
        log=str(tmp_path / "logs" / "old.log"),
    )  # fmt: skip
    service = Service(temporal_address="", temporal_namespace="", ledger_digest="", sandbox="", gpu_uuid=None)
    with hold_home(tmp_path, "up"):
        write_up_health(
            tmp_path,
            UpHealth(pid=os.getpid(), started_at=now, service=service, leaderboard="", programs=(program,)),
        )
        assert prune()["logs"] == []
    assert len(prune()["logs"]) == 1, "nobody writes to it any more"


def test_a_home_without_anything_has_nothing_to_prune(prune, tmp_path, monkeypatch):
    monkeypatch.setenv("COMPILER_AGENT_HOME", str(tmp_path / "new"))
    assert prune() == prune("--dry-run") | {"dry_run": False}


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "99999999"])
def test_a_time_that_is_none_is_refused_by_the_setting_s_name(past, text, monkeypatch, capsys):
    monkeypatch.setenv("COMPILER_AGENT_KEEP_CANDIDATES_DAYS", text)
    assert run_command(["prune"]) == 2
    assert "COMPILER_AGENT_KEEP_CANDIDATES_DAYS is" in capsys.readouterr().err
    assert len(past.there()) == 1
