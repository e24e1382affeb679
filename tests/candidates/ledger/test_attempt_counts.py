"""How the attempts of a run went, in each database."""

from candidates.ledger.attempt_counts import count_attempts
from candidates.ledger.ledger import Ledger
from tests.candidates.past_searches import REJECTED, REQUEST, attempt, double_task, measurement

TASK = double_task()


def test_rejections_are_counted_by_reason_whatever_the_sources_hold(ledger_url):
    ledger = Ledger(ledger_url)
    ledger.put_task(TASK)
    ledger.open_run(REQUEST, "run-1")
    ledger.open_run(REQUEST.model_copy(update={"model": "other"}), "run-2")
    right = [attempt(f"right {number}", measurement(1.5)) for number in range(3)]
    wrong = [attempt(f"wrong \0 {number}").model_copy(update={"verdict": REJECTED}) for number in range(2)]
    for run_id, kernels in (("run-1", [*right, *wrong]), ("run-2", right)):
        for kernel in kernels:
            ledger.put_candidate(kernel.proposal.candidate)
            ledger.put_attempt(run_id, TASK.id, kernel)
    assert list(count_attempts(ledger, "run-1").items()) == [("accepted", 3), ("rejected: crashed", 2)]
    assert count_attempts(ledger, "run-3") == {}
