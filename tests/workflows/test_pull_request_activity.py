"""What the activity that proposes pull requests tells the run when it fails."""

import traceback

import pytest
from temporalio.exceptions import ApplicationError

from candidates.forge import ForgeRefused
from tests.candidates.pull_requests.past_runs import Kernel, PastRuns
from workflows.activities.pull_requests import PullRequestActivities
from workflows.payloads import ShipInput


@pytest.mark.parametrize(
    ("error", "words"),
    [(ForgeRefused("give a valid token"), "give a valid token"), (ValueError("S3CR3T"), "ValueError")],
)
def test_only_messages_that_are_for_users_reach_the_ledger(tmp_path, error, words):
    runs = PastRuns(tmp_path / "home")
    runs.add("run1", Kernel())

    def open_desk():
        raise error

    with pytest.raises(ApplicationError) as raised:
        PullRequestActivities(runs.ledger, open_desk).propose_pull_requests(ShipInput(run_id="run1", device_id="d"))
    assert raised.value.non_retryable == isinstance(error, ForgeRefused)
    told = "".join(each.progress.message for each in runs.ledger.progress_after("run1", 0))
    assert words in told
    shown = "".join(traceback.format_exception(raised.value))
    assert "S3CR3T" not in told + shown
