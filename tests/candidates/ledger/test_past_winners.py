"""past_winners: of alike tasks on the same device, the most alike first, promoted before faster, nothing hidden."""

import pytest

from candidates.agent import Attempt
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger
from candidates.ledger.past_winners import past_winners
from candidates.promotion import Gate, PromotionDecision
from candidates.task import KernelTask
from tests.candidates.past_searches import REJECTED, REQUEST, attempt, double_task, measurement

TASK = double_task()
WIDER = double_task(width=512)
OTHER_TYPE_OF_OP = double_task(reference="def reference(x):\n    return x.exp()\n")


@pytest.fixture
def ledger(ledger_url):
    ledger = Ledger(ledger_url)
    ledger.open_run(REQUEST, "run-1")
    return ledger


def keep(ledger: Ledger, task: KernelTask, *attempts: Attempt) -> None:
    ledger.put_task(task)
    for each in attempts:
        ledger.put_candidate(each.proposal.candidate)
        ledger.put_attempt("run-1", task.id, each)


def promote(ledger: Ledger, task: KernelTask, promoted: Attempt, *, passed: bool = True) -> None:
    gate = Gate(name="confirmed", figure=2.0, bound="> 1.03", passed=passed)
    decision = PromotionDecision(task_id=task.id, candidate_id=promoted.proposal.candidate.id, gates=(gate,))
    ledger.put_promotion("run-1", decision)


def sources(winners: tuple[Attempt, ...]) -> list[str]:
    return [winner.proposal.candidate.source for winner in winners]


def test_a_new_ledger_has_none(ledger):
    assert past_winners(ledger, TASK) == ()


def test_of_one_task_each_agents_best_is_given(ledger):
    keep(
        ledger,
        TASK,
        attempt("good", measurement(1.5)),
        attempt("best", measurement(2.0)),
        attempt("by a model", measurement(1.2), agent="llm"),
        attempt("slower than torch", measurement(0.9), agent="third"),
        attempt("wrong", is_accepted=False, agent="fourth"),
    )
    assert sources(past_winners(ledger, TASK)) == ["best", "by a model"]


def test_what_was_promoted_comes_before_what_was_faster_once(ledger):
    promoted, faster = attempt("promoted", measurement(1.5)), attempt("faster", measurement(2.0))
    keep(ledger, TASK, promoted, faster)
    promote(ledger, TASK, faster, passed=False)
    promote(ledger, TASK, promoted)
    assert sources(past_winners(ledger, TASK)) == ["promoted"]


def test_the_most_alike_tasks_come_first(ledger):
    keep(ledger, WIDER, attempt("wider", measurement(4.0)))
    keep(ledger, TASK, attempt("itself", measurement(1.5)))
    keep(ledger, OTHER_TYPE_OF_OP, attempt("another op", measurement(9.0)))
    keep(ledger, double_task(device_id="cpu-1"), attempt("another device", measurement(9.0, device_id="cpu-1")))
    assert sources(past_winners(ledger, TASK)) == ["itself", "wider"]
    assert sources(past_winners(ledger, WIDER)) == ["wider", "itself"]
    assert sources(past_winners(ledger, TASK, most=1)) == ["itself"]


def test_a_kernel_that_won_two_tasks_is_given_once(ledger):
    for task in (TASK, WIDER):
        keep(ledger, task, attempt("for both", measurement(2.0)))
    assert sources(past_winners(ledger, TASK)) == ["for both"]


def test_a_kernel_that_was_rejected_since_is_no_winner(ledger):
    won = attempt("a time bomb", measurement(2.0))
    keep(ledger, TASK, won)
    Evaluations(ledger).put(TASK.id, won.model_copy(update={"verdict": REJECTED, "measurement": None}))
    assert past_winners(ledger, TASK) == ()


def test_hidden_workloads_are_never_shown(ledger):
    seen = ("rows=4", "rows=9", "rows=5")
    keep(ledger, double_task(rows=(4, 9), hidden_rows=(5,)), attempt("kernel", measurement(2.0, workloads=seen)))
    (winner,) = past_winners(ledger, double_task(rows=(4,), hidden_rows=(9,)))
    assert [each.workload for each in winner.measurement.workloads] == ["rows=4"]
