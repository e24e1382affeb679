from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy.exc import IntegrityError

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.tables import DoesNotFit
from candidates.measurement import Measurement
from candidates.run import Progress, RunRequest, Stage, TuneReport, TuneRequest
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, Rejected


@pytest.fixture
def ledger(ledger_url):
    return Ledger(ledger_url)


REQUEST = RunRequest(traces=("/t.jsonl",), trace_digest="0" * 64, model="m")
TASK = KernelTask(
    op="Double",
    site="model.layers.*.double",
    level="leaf",
    reference="def reference(x):\n    return x + x\n",
    inputs=(InputSpec(name="x", element_type="float32", shape=("rows", 8), dim_order=(0, 1), role="activation"),),
    outputs=(TensorSpec(name="out0", element_type="float32", shape=("rows", 8), dim_order=(0, 1)),),
    axes=("rows",),
    workloads=(Workload(axes={"rows": 4}, calls_per_hour=10.0),),
    error_bound=ErrorBound(scaled_error=0.0),
    device_id="cpu-0",
)


MEASUREMENT = Measurement(
    stage="race",
    device_id="cpu-0",
    threads=1,
    workloads=(),
    traffic_weighted_speedup=1.5,
    interval=(1.4, 1.6),
    decision="win",
    wall_s=1.0,
)
REJECTED = Rejected(reason="crashed", workload=None, evidence=Evidence(message="no"), seed=1)


def _attempt(source: str) -> Attempt:
    candidate = Candidate(language="cpp", source=source)
    verdict = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.0)
    return Attempt(proposal=Proposal(candidate=candidate, agent="search"), verdict=verdict)


def test_an_equal_request_finds_its_unfinished_run(ledger):
    assert ledger.open_run(REQUEST, "run-1") == "run-1"
    assert ledger.open_run(REQUEST, "run-2") == "run-1"
    other = REQUEST.model_copy(update={"model": "another"})
    assert ledger.open_run(other, "run-3") == "run-3"
    assert ledger.run_request("run-1") == REQUEST


def test_tunes_are_runs_too(ledger):
    tune = TuneRequest(task_id=TASK.id, op=TASK.op)
    report = TuneReport(
        run_id="tune-1", task=TASK.id, op=TASK.op, decision="lost", candidate=None, best_baseline=None,
        speedup_over_best=None, interval=None, share_of_floor=None, tried=1, reason="race at 0.90x",
        stop_reason="no_progress: flat", spend_usd=0.0, spend_tokens=0, budget_stops=(), wall_s=1.0,
    )  # fmt: skip
    ledger.open_run(REQUEST, "run-1")
    assert ledger.open_run(tune, "tune-1") == ledger.open_run(tune, "tune-2") == "tune-1"
    assert ledger.report("tune-1") is None
    ledger.end_run(report)
    assert ledger.report("tune-1") == report
    assert [(entry.request, entry.report) for entry in ledger.runs()] == [(tune, report), (REQUEST, None)]
    assert ledger.open_run(tune, "tune-2") == "tune-2"


def test_writing_a_fact_twice_is_writing_it_once(ledger):
    ledger.open_run(REQUEST, "run-1")
    ledger.put_task(TASK)
    ledger.put_task(TASK)
    attempt = _attempt("void kernel() {}")
    ledger.put_candidate(attempt.proposal.candidate)
    for _ in range(2):
        ledger.put_attempt("run-1", TASK.id, attempt)
    assert ledger.attempts("run-1", TASK.id) == (attempt,)
    assert ledger.tasks() == (TASK,)


def test_refuses_an_attempt_at_a_task_that_it_does_not_know(ledger):
    ledger.open_run(REQUEST, "run-1")
    attempt = _attempt("void kernel() {}")
    ledger.put_candidate(attempt.proposal.candidate)
    with pytest.raises(IntegrityError):
        ledger.put_attempt("run-1", "no such task", attempt)


def test_finds_a_task_by_the_start_of_its_id(ledger):
    ledger.put_task(TASK)
    assert ledger.task(TASK.id[:8]) == TASK
    with pytest.raises(LedgerError, match="is not in the ledger"):
        ledger.task("zz")


def test_an_id_prefix_with_a_wildcard_matches_nothing(ledger):
    ledger.put_task(TASK)
    with pytest.raises(LedgerError):
        ledger.task("%")


def test_an_id_prefix_is_taken_to_the_letter(ledger):
    ledger.put_task(TASK)
    beginning = next(TASK.id[:n] for n in range(1, 64) if not TASK.id[:n].isdecimal())
    assert ledger.task(beginning) == TASK
    with pytest.raises(LedgerError):
        ledger.task(beginning.upper())


def test_records_are_read_as_they_were_written(ledger):
    """Whatever a hostile kernel holds; the id is a digest of all of it."""
    odd = Candidate(language="cpp", source="\0 \\u0000 \x1f \x7f \u2028 \uffff \U0001f600 '\"%s :name", prepare="\0")
    ledger.put_candidate(odd)
    assert ledger.candidate(odd.id) == odd
    assert ledger.candidate(odd.id).id == odd.id


def test_what_does_not_fit_a_column_is_refused_by_its_name(ledger):
    longest = TASK.model_copy(update={"op": "é" * 256})
    ledger.put_task(longest)
    assert ledger.task(longest.id) == longest
    with pytest.raises(DoesNotFit, match=r"tasks\.op of the ledger takes 256 characters, not the 257 of 'x{80}\.\.\.'"):
        ledger.put_task(TASK.model_copy(update={"op": "x" * 257}))
    with pytest.raises(DoesNotFit, match=r"tasks\.op of the ledger takes no NUL character: 'a.x00b'"):
        ledger.put_task(TASK.model_copy(update={"op": "a\0b"}))
    assert ledger.tasks() == (longest,)


def test_of_many_who_write_a_fact_at_once_one_does(ledger):
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: ledger.put_task(TASK), range(24)))
    assert ledger.tasks() == (TASK,)


def test_times_are_in_utc(ledger):
    ledger.open_run(REQUEST, "run-1")
    ledger.add_progress("run-1", Progress(stage=Stage.REPLAY, message="first"))
    (run,), (line,) = ledger.runs(), ledger.progress_after("run-1", 0)
    for moment in (run.started_at, line.recorded_at):
        assert moment.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=10)
    assert -1 < ledger.run_age_s("run-1") < 600


def test_progress_is_read_on_from_where_a_reader_was(ledger):
    ledger.open_run(REQUEST, "run-1")
    ledger.add_progress("run-1", Progress(stage=Stage.REPLAY, message="first"))
    first = ledger.progress_after("run-1", 0)
    ledger.add_progress("run-1", Progress(stage=Stage.REPLAY, message="second"))
    assert [p.progress.message for p in ledger.progress_after("run-1", first[-1].sequence)] == ["second"]


def test_two_processes_may_write_one_ledger(ledger_url):
    Ledger(ledger_url).open_run(REQUEST, "run-1")
    assert [entry.run_id for entry in Ledger(ledger_url).runs()] == ["run-1"]


def test_the_latest_word_on_a_candidate_counts(ledger):
    ledger.put_task(TASK)
    accepted = _attempt("a")
    measured = accepted.model_copy(update={"measurement": MEASUREMENT})
    rejected = accepted.model_copy(update={"verdict": REJECTED})
    ledger.put_candidate(accepted.proposal.candidate)
    seen = []
    for attempt in (accepted, measured, accepted, rejected):
        Evaluations(ledger).put(TASK.id, attempt)
        (evaluation,) = Evaluations(ledger).of(TASK.id)
        seen.append(evaluation.attempt)
    assert seen == [accepted, measured, measured, rejected]


def test_evaluations_of_runs_come_with_their_last_measurement(ledger):
    ledger.open_run(REQUEST, "run-1")
    ledger.put_task(TASK)
    attempt = _attempt("a")
    ledger.put_candidate(attempt.proposal.candidate)
    ledger.put_attempt("run-1", TASK.id, attempt)
    ledger.put_measurement("run-1", TASK.id, attempt.proposal.candidate.id, MEASUREMENT)
    (evaluation,) = Evaluations(ledger).of(TASK.id)
    assert evaluation.attempt.measurement == MEASUREMENT
    assert Evaluations(ledger).of("another task") == ()
