"""A request that goes on at one Temporal server is not begun at another one with the same ledger."""

import dataclasses

import pytest
from judge_tasks import RMSNORM
from rich.console import Console

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import Running, RunStates
from candidates.run import Progress, Stage, TuneRequest
from compiler_agent.local_run import perform_run
from compiler_agent.outcome import UserFault
from tests.workflows.null_runs import settings_of

REQUEST = TuneRequest(task_id=RMSNORM.id, op=RMSNORM.op)


def test_what_goes_on_elsewhere_is_refused_with_the_age_of_its_last_word(server_address, tmp_path):
    settings = dataclasses.replace(settings_of(tmp_path), temporal_address=server_address)
    ledger = Ledger(settings.ledger_url)
    ledger.put_task(RMSNORM)
    ledger.open_run(REQUEST, "tune-1")
    ledger.add_progress("tune-1", Progress(stage=Stage.SEARCH, message="search writes its first kernels"))
    with pytest.raises(UserFault, match=r"tune-1, the same request, goes on at another .* is \d+ s old"):
        perform_run(settings, ledger, REQUEST, Console(quiet=True))
    (run,) = ledger.runs()
    assert isinstance(RunStates(ledger).of([run])["tune-1"], Running)
