"""What a settled search leaves to later ones."""

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.ledger.blobs import BlobStore
from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from tests.candidates.past_searches import REQUEST, attempt, double_task, measurement
from workflows.activities.search import DeviceSearchActivities
from workflows.payloads import SettleInput

TASK = double_task()


class LosingBenchmark:
    """Every race is lost."""

    def race(self, task, candidate, artifact, *, live, most_s):
        return measurement(0.9, stage="race").model_copy(update={"decision": "lose"})


def test_a_settled_search_leaves_what_it_learned(tmp_path):
    ledger, blobs = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}"), BlobStore(tmp_path / "blobs")
    ledger.open_run(REQUEST, "run")
    ledger.put_task(TASK)
    parent = attempt("parent", measurement(1.0))
    child = attempt("child", measurement(2.0), parents=(parent,))
    for each in (parent, child):
        ledger.put_candidate(each.proposal.candidate)
        ledger.put_artifact(TASK.id, each.proposal.candidate.id, blobs.put(b"artifact"))
        ledger.put_attempt("run", TASK.id, each)
    activities = DeviceSearchActivities(
        ledger,
        blobs,
        judge=None,
        sanitizers=None,
        benchmark=lambda task: LosingBenchmark(),
        live=lambda task: None,
        count=None,
    )
    settle = SettleInput(run_id="run", task_id=TASK.id, stop_reason="budget")
    for _ in range(2):  # the second time is a retry
        ActivityEnvironment().run(activities.settle_winner, settle)
    (card,) = Cards(ledger).search(TASK)
    assert card.ratio == pytest.approx(2.0)
    assert [end.decision for end in ledger.search_ends("run")] == ["lost"]
