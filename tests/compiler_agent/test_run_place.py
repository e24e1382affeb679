"""open_run_place, where another process holds the home."""

import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from candidates.ledger.ledger import Ledger
from candidates.run import TuneRequest
from compiler_agent.home_lock import HomeTaken
from compiler_agent.local_run import perform_run
from compiler_agent.local_service import service_of
from compiler_agent.outcome import UserFault, progress_console
from compiler_agent.program_health import UpHealth, write_up_health
from compiler_agent.run_place import open_run_place
from compiler_agent.service_status import read_service_status
from compiler_agent.settings import SandboxName, read_settings
from tests.compiler_agent.test_home_lock import HOLDS


@pytest.fixture
def settings(tmp_path):
    return read_settings({"COMPILER_AGENT_HOME": str(tmp_path)})


@pytest.fixture
def holder(settings):
    command = [sys.executable, "-c", HOLDS, str(settings.home)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"held\n"
        yield process
        process.kill()


def tell(settings, pid):
    health = UpHealth(
        pid=pid,
        started_at=datetime.now(UTC),
        service=service_of(settings, "127.0.0.1:7001"),
        leaderboard="http://127.0.0.1:8400/",
        programs=(),
    )
    write_up_health(settings.home, health)


def test_a_run_goes_to_the_server_of_up_with_no_workers_of_its_own(settings, holder):
    tell(settings, holder.pid)
    with open_run_place(settings) as place:
        assert (place.address, place.workers) == ("127.0.0.1:7001", ())


def test_a_run_with_other_settings_than_those_of_up_is_refused_with_their_names(settings, holder):
    tell(settings, holder.pid)
    other = replace(settings, sandbox=SandboxName.DOCKER, ledger_url="sqlite:////elsewhere.sqlite")
    with pytest.raises(UserFault, match="another ledger, sandbox: give both"), open_run_place(other):
        pass


def test_a_run_that_is_refused_is_not_in_the_ledger(settings, holder):
    ledger, request = Ledger(settings.ledger_url), TuneRequest(task_id="ab", op="Linear", search_s=1.0)
    with pytest.raises(HomeTaken):
        perform_run(settings, ledger, request, progress_console)
    assert ledger.runs() == ()


def test_status_says_that_up_has_another_ledger(settings, holder):
    tell(settings, holder.pid)
    other = replace(settings, ledger_url=f"sqlite:///{settings.home}/other.sqlite")
    (told,) = (problem for problem in read_service_status(other).problems if str(holder.pid) in problem)
    assert "serves with another ledger" in told


@pytest.mark.parametrize("pid", [None, 1])
def test_what_an_up_that_was_killed_has_left_is_not_believed(settings, holder, pid):
    if pid is not None:
        tell(settings, pid)
    with pytest.raises(HomeTaken), open_run_place(settings):
        pass
