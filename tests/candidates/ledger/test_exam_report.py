"""What an exam came to, from facts that searches would have left."""

import pytest

from candidates.exam import ExamRequest, ExamTask
from candidates.ledger.exam_report import report_exam
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import ModelCalls
from candidates.run import SearchEnd
from candidates.spending import Amount, CallOutcome, Caps, ModelBudget, ModelCall, ModelCallEnd, RecordedCall
from tests.candidates.past_searches import attempt, double_task, measurement

RUN = "exam-1"
TASKS = [double_task(width) for width in (8, 16, 24, 32)]
REQUEST = ExamRequest(
    endpoint="local",
    model="m",
    is_priced=True,
    tasks=tuple(ExamTask(task_id=task.id, op=task.op) for task in TASKS),
    models=ModelBudget(endpoints=("local",), run=Caps(usd=5.0)),
    search_s=60.0,
    attempts=6,
    last_stage="confirm",
)


@pytest.fixture
def ledger(ledger_url):
    return Ledger(ledger_url)


@pytest.fixture
def exam(ledger):
    """Four tasks: confirmed at 3x, raced at 1.05x, caught under sanitizers, without a kernel."""

    def open_exam(**changes):
        ledger.open_run(REQUEST.model_copy(update=changes), RUN)
        for task in TASKS:
            ledger.put_task(task)
        won, lost, caught, empty = TASKS
        _search(ledger, won, [attempt("a", measurement(2.0)), attempt("b", is_accepted=False)], "won", "a")
        _measured(ledger, won, "a", measurement(2.5, stage="race"), measurement(3.0, stage="confirm"))
        _search(ledger, lost, [attempt("c", measurement(1.2))], "lost", "c")
        _measured(ledger, lost, "c", measurement(1.05, stage="race"))
        _search(ledger, caught, [attempt("d", measurement(9.0))], "rejected", "d")
        _search(ledger, empty, [], "no_program", None, stop="no_kernel: none")
        calls = ModelCalls(ledger)
        calls.open_account(RUN, Caps(usd=5.0))
        for number, (task, names) in enumerate(
            ((won, ("round-0/sample-0", "round-0/sample-1", "round-0/again-1", "round-1/diagnosis-0")),
             (lost, ("round-0/sample-0",)),
             (caught, ("round-0/sample-0",)),
             (empty, ("round-0/sample-0", "round-0/again-0")))
        ):  # fmt: skip
            account = f"{RUN}/{task.id[:16]}"
            calls.open_account(account, Caps(usd=5.0))
            for name in names:
                _call(calls, f"{account}/llm/{name}", (RUN, account), nano_usd=(number + 1) * 100_000_000)
        return ledger

    return open_exam


def _search(ledger, task, attempts, decision, best, stop="budget: 6 attempts made"):
    for each in attempts:
        ledger.put_candidate(each.proposal.candidate)
        ledger.put_attempt(RUN, task.id, each)
    candidate_id = attempt(best).proposal.candidate.id if best else None
    ledger.put_search_end(
        RUN,
        SearchEnd(
            task_id=task.id, op=task.op, decision=decision, candidate_id=candidate_id, reason="so it was",
            stop_reason=stop, tried=len(attempts),
        ),
    )  # fmt: skip


def _measured(ledger, task, source, *measurements):
    for each in measurements:
        ledger.put_measurement(RUN, task.id, attempt(source).proposal.candidate.id, each)


def _call(calls, call_id, accounts, nano_usd):
    reserved = Amount(nano_usd=10**9, tokens=1000, milliseconds=60_000)
    call = ModelCall(
        call_id=call_id, endpoint="local", model="m", accounts=accounts, reserved=reserved, request="0" * 64
    )
    begun = calls.begin(call)
    spent = Amount(nano_usd=nano_usd, tokens=100, milliseconds=1500)
    end = ModelCallEnd(outcome=CallOutcome.REPLY, spent=spent, is_spend_known=True, answer="1" * 64)
    assert calls.settle(RecordedCall(try_number=begun.try_number, call=call, end=None), end)


def test_figures_are_of_the_best_kernels_at_their_last_stage(exam):
    report = report_exam(exam(), RUN)
    assert [task.speedup_over_best for task in report.tasks] == [3.0, 1.05, None, None]
    assert [task.stage for task in report.tasks] == ["confirm", "race", None, None]
    assert report.stages == {"confirm": 1, "race": 1}
    assert (report.tasks_correct.count, report.tasks_correct.of) == (2, 4)
    assert {fast.p: fast.share.count for fast in report.fast_p} == {1.0: 2, 1.1: 1, 1.5: 1, 2.0: 1}
    assert {fast.share.of for fast in report.fast_p} == {4}
    assert report.speedup is not None
    assert (report.speedup.speedup, report.speedup.tasks) == (pytest.approx((3.0 * 1.05) ** 0.5), 2)


def test_samples_that_hold_no_kernel_count_and_second_askings_do_not(exam):
    report = report_exam(exam(), RUN)
    assert [(task.samples, task.judged, task.accepted) for task in report.tasks] == [
        (2, 2, 1), (1, 1, 1), (1, 1, 1), (1, 0, 0),
    ]  # fmt: skip
    assert (report.samples_accepted.count, report.samples_accepted.of) == (3, 5)


def test_dollars_are_the_ledgers(exam):
    report = report_exam(exam(), RUN)
    assert [task.spend_usd for task in report.tasks] == pytest.approx([0.4, 0.2, 0.3, 0.8])
    assert report.spend_usd == pytest.approx(1.7)
    assert (report.wins, report.usd_per_win) == (1, pytest.approx(1.7))
    assert (report.spend_tokens, report.model_s) == (800, pytest.approx(12.0))
    assert report.stop_reasons == {"budget": 3, "no_kernel": 1}


def test_without_a_price_dollars_are_unknown(exam):
    report = report_exam(exam(is_priced=False), RUN)
    assert (report.spend_usd, report.usd_per_win, report.tasks[0].spend_usd) == (None, None, None)
    assert report.spend_tokens == 800


def test_without_races_nothing_wins(exam):
    assert report_exam(exam(last_stage="screen"), RUN).wins is None


def test_an_exam_that_has_not_ended_has_no_report(ledger):
    ledger.open_run(REQUEST, RUN)
    with pytest.raises(LedgerError, match="has not ended"):
        report_exam(ledger, RUN)
    assert ledger.latest_report(REQUEST) is None


def test_the_latest_exam_counts(exam):
    ledger = exam()
    report = report_exam(ledger, RUN)
    ledger.end_run(report)
    assert ledger.latest_report(REQUEST) == report
    assert ledger.latest_report(REQUEST.model_copy(update={"attempts": 7})) is None
    assert ledger.open_run(REQUEST, "exam-2") == "exam-2"
    assert ledger.latest_report(REQUEST) is None
