"""What is known of one candidate: by its id, and along indexes alone."""

import pytest
from sqlalchemy import event

from candidates.compiler_report import CompilerReport
from candidates.ledger.candidate_facts import facts_of, fastest_of_op
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.reports import RecordedReports
from candidates.promotion import UNCHANGED, Gate, PromotionDecision
from candidates.run import RunRequest
from tests.candidates.past_searches import attempt, double_task, measurement

TASK = double_task()


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.put_task(TASK)
    for run_id in ("run-1", "run-2"):
        ledger.open_run(RunRequest(traces=(run_id,), trace_digest="0", model="m"), run_id)
    return ledger


def keep(ledger, source, speedup=None, run_id="run-1", is_accepted=True):
    tried = attempt(source, None if speedup is None else measurement(speedup), is_accepted=is_accepted)
    ledger.put_candidate(tried.proposal.candidate)
    ledger.put_attempt(run_id, TASK.id, tried)
    return tried.proposal.candidate.id


def test_finds_a_candidate_by_its_id_and_by_a_start_that_is_unique(ledger):
    ids = {keep(ledger, f"int x{number};") for number in range(40)}
    for one in ids:
        assert ledger.candidate(one).id == one
        shortest = next(n for n in range(1, 65) if sum(other.startswith(one[:n]) for other in ids) == 1)
        assert ledger.candidate(one[:shortest]).id == one
        with pytest.raises(LedgerError):
            ledger.candidate(one[: shortest - 1])


@pytest.mark.parametrize("unknown", ["%", "_", "g", "A", "f" * 65, "ff' OR 1=1"])
def test_what_is_no_id_is_not_in_the_ledger(ledger, unknown):
    with pytest.raises(LedgerError, match="not in the ledger"):
        ledger.candidate(unknown)


def test_joins_what_each_run_found(ledger):
    one = keep(ledger, "int a;", 1.5)
    ledger.put_measurement("run-1", TASK.id, one, measurement(1.6, stage="race"))
    ledger.put_measurement("run-2", TASK.id, one, measurement(1.7, stage="confirm"))
    facts = facts_of(ledger, one, TASK.id)
    found = {trial.run_id: [each.stage for each in trial.measurements] for trial in facts.trials}
    assert found == {"run-1": ["screen", "race"], "run-2": ["confirm"]}
    assert facts.word.attempt.measurement.stage == "confirm"


def test_gates_are_those_that_were_earned_where_the_latest_were_carried_on(ledger):
    one = keep(ledger, "int a;", 1.5)
    for run_id, name in (("run-1", "won"), ("run-2", UNCHANGED)):
        gate = Gate(name=name, figure=1.0, bound="it did", passed=True)
        ledger.put_promotion(run_id, PromotionDecision(task_id=TASK.id, candidate_id=one, gates=(gate,)))
    assert facts_of(ledger, one, TASK.id).gates.run_id == "run-1"


def test_the_fastest_other_is_no_rejected_one(ledger):
    slow, fast = keep(ledger, "int slow;", 1.2), keep(ledger, "int fast;", 1.5)
    keep(ledger, "int wrong;", 9.0, is_accepted=False)
    assert fastest_of_op(ledger, TASK.op, TASK.device_id, besides=slow) == fast
    assert fastest_of_op(ledger, TASK.op, TASK.device_id, besides=fast) == slow
    assert fastest_of_op(ledger, TASK.op, "elsewhere", besides=fast) is None


def test_no_query_reads_a_whole_table(ledger):
    one = keep(ledger, "int a;", 1.5)
    asked = []
    listen = lambda _, __, statement, parameters, ___, ____: asked.append((statement, parameters))  # noqa: E731
    event.listen(ledger.engine, "before_cursor_execute", listen)
    ledger.candidate(one[:9])
    facts_of(ledger, one, TASK.id)
    fastest_of_op(ledger, TASK.op, TASK.device_id, besides=one)
    RecordedReports(ledger).of(TASK.id, one)
    event.remove(ledger.engine, "before_cursor_execute", listen)
    with ledger.engine.connect() as connection:
        for statement, parameters in asked:
            if statement.startswith("SELECT"):
                plan = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters)]
                assert not any(step.startswith("SCAN") for step in plan), (statement, plan)


def test_the_first_compiler_report_of_a_candidate_for_a_task_stays(ledger):
    one = keep(ledger, "int a;")
    reports = RecordedReports(ledger)
    assert reports.of(TASK.id, one) is None
    for note in ("first", "second"):
        reports.put(TASK.id, one, CompilerReport(notes=(note,)))
    assert reports.of(TASK.id, one).notes == ("first",)
