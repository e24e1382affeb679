"""What the activities of a search record, and what they leave to be tried again."""

import time

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.agent import Attempt, Proposals, Stop, stop_for_device
from candidates.builder import CompilerUnavailable
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.compiler_report import CompilerReport
from candidates.gpu_counters import KernelCounters, WorkloadCounters
from candidates.gpu_profiler import NotCounted
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.reports import RecordedReports
from candidates.ledger.waiting import waiting_for_device
from candidates.promotion import Gate, PromotionDecision
from candidates.run import RunRequest, SearchEnd
from candidates.spending import Caps, ModelBudget
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, NeedsDevice, Reason, Rejected
from kernel_sandbox.sandbox import SandboxError
from tests.candidates.past_searches import measurement
from workflows.activities.search import AuthorActivities, BuildActivities, DeviceSearchActivities
from workflows.payloads import Generation, ProposeInput, ReportInput, SettleInput

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


class ScriptedJudge:
    """Gives or raises the next of its answers."""

    def __init__(self, answers):
        self._answers = list(answers)

    def judge(self, task, candidate, artifact, seed=None):
        answer = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def _built_generation(ledger, blobs, task=TASK, language=LanguageName.CPP):
    """Two proposals whose artifacts are there, and the generation of them."""
    proposals = []
    for name in ("first", "second"):
        candidate = Candidate(language=language, source=f"void {name}() {{}}")
        ledger.put_candidate(candidate)
        ledger.put_artifact(task.id, candidate.id, blobs.put(f"artifact of {name}".encode()))
        proposals.append(Proposal(candidate=candidate, agent="search"))
    generation = Generation(
        run_id="run",
        task_id=task.id,
        proposals=tuple(blobs.put(proposal.model_dump_json().encode()) for proposal in proposals),
        wall_s=0.0,
    )
    return proposals, generation


def test_a_judgement_whose_machinery_fails_is_no_attempt_and_is_made_again(ledger, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    proposals, generation = _built_generation(ledger, blobs)
    rejected = Rejected(reason=Reason.CRASHED, workload=None, evidence=Evidence(message="it crashed"), seed=1)
    judge = ScriptedJudge([rejected, SandboxError("somebody killed it"), rejected])
    activities = DeviceSearchActivities(ledger, blobs, judge, sanitizers=None, benchmark=None, live=None, count=None)

    with pytest.raises(SandboxError):
        ActivityEnvironment().run(activities.evaluate_generation, generation)
    assert [attempt.proposal for attempt in ledger.attempts("run", TASK.id)] == proposals[:1]

    assert ActivityEnvironment().run(activities.evaluate_generation, generation).tried == 2
    assert [attempt.proposal for attempt in ledger.attempts("run", TASK.id)] == proposals


def test_what_was_only_interpreted_is_not_timed_and_waits_for_a_device(ledger, tmp_path):
    blobs, task = BlobStore(tmp_path / "blobs"), TASK.model_copy(update={"architectures": ("sm_90",)})
    ledger.put_task(task)
    proposals, generation = _built_generation(ledger, blobs, task, LanguageName.TRITON)
    interpreted = Accepted(evidence=EvidenceKind.INTERPRETED, seed=1, calls_checked=4, worst_error_in_bounds=0.5)
    judge = ScriptedJudge([interpreted, NeedsDevice(target="cpu-0", note="no inline assembly")])
    activities = DeviceSearchActivities(ledger, blobs, judge, sanitizers=None, benchmark=None, live=None, count=None)

    ActivityEnvironment().run(activities.evaluate_generation, generation)
    settle = SettleInput(run_id="run", task_id=task.id, stop_reason="budget: 0 attempts left")
    ActivityEnvironment().run(activities.settle_winner, settle)

    (end,) = ledger.search_ends("run")
    assert (end.decision, end.reason) == ("undecided", "2 of 2 candidates wait for sm_90")
    assert [each.candidate for each in waiting_for_device(ledger)] == [each.candidate for each in proposals]
    assert stop_for_device(ledger.attempts("run", task.id)).reason == "needs_device"


class ScriptedBenchmark:
    """Screens each candidate at the next of its speedups."""

    def __init__(self, *speedups):
        self._speedups, self.incumbents = list(speedups), []

    def screen(self, task, candidate, artifact, *, incumbent):
        self.incumbents.append(incumbent and incumbent.traffic_weighted_speedup)
        return measurement(self._speedups.pop(0))


COUNTERS = WorkloadCounters(workload="rows=4", kernels=(KernelCounters(kernel="double", launch=0, counters=()),))


@pytest.mark.parametrize(
    ("counted", "counters", "told"),
    [
        (
            NotCounted(why="ERR_NVGPUCTRPERM: ask root"),
            None,
            "; no counters: ERR_NVGPUCTRPERM: ask root",
        ),
        (COUNTERS, COUNTERS, ""),
        (None, None, ""),
    ],
    ids=["refused", "read", "no GPU"],
)
def test_counters_are_read_of_what_is_fastest_and_why_they_are_missing_is_told(
    ledger, tmp_path, counted, counters, told
):
    blobs, asked = BlobStore(tmp_path / "blobs"), []
    proposals, generation = _built_generation(ledger, blobs)
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=4, worst_error_in_bounds=0.5)
    benchmark = ScriptedBenchmark(1.5, 1.25)

    def count(task, candidate, artifact):
        asked.append((candidate, artifact))
        return counted

    activities = DeviceSearchActivities(
        ledger,
        blobs,
        ScriptedJudge([accepted, accepted]),
        sanitizers=None,
        benchmark=lambda task: benchmark,
        live=None,
        count=count,
    )
    ActivityEnvironment().run(activities.evaluate_generation, generation)
    assert asked == [(proposals[0].candidate, b"artifact of first")]
    assert benchmark.incumbents == [None, 1.5]
    assert [attempt.counters for attempt in ledger.attempts("run", TASK.id)] == [counters, None]
    first, second = (each.progress.message for each in ledger.progress_after("run", 0))
    assert (first, second) == (f"screened at 1.50x{told}", "screened at 1.25x")


def test_equal_machine_code_is_judged_and_measured_once(ledger, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    proposals, generation = _built_generation(ledger, blobs)
    ledger.put_artifact(TASK.id, proposals[1].candidate.id, blobs.put(b"artifact of first"))
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=4, worst_error_in_bounds=0.5)
    benchmark = ScriptedBenchmark(1.5)
    activities = DeviceSearchActivities(
        ledger,
        blobs,
        ScriptedJudge([accepted]),
        sanitizers=None,
        benchmark=lambda task: benchmark,
        live=None,
        count=lambda task, candidate, artifact: None,
    )
    ActivityEnvironment().run(activities.evaluate_generation, generation)
    attempts = ledger.attempts("run", TASK.id)
    assert [attempt.proposal for attempt in attempts] == proposals
    assert [attempt.speedup for attempt in attempts] == [1.5, 1.5]


def test_an_agent_that_goes_ahead_is_told_what_is_pending_and_nothing_of_how_it_fared(ledger, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    proposals, generation = _built_generation(ledger, blobs)
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=4, worst_error_in_bounds=0.5)
    ledger.put_attempt("run", TASK.id, Attempt(proposal=proposals[0], verdict=accepted, measurement=measurement(1.5)))
    seen = []

    class Agent:
        name = "search"

        def propose(self, task, attempts, budget):
            seen.append((attempts, budget.pending))
            return Proposals(proposals=(proposals[1],), may_go_ahead=True)

    author = AuthorActivities(ledger, blobs, agents=lambda name: Agent())
    ask = ProposeInput(
        run_id="run",
        task_id=TASK.id,
        agent="search",
        round_number=1,
        models=ModelBudget(),
        seconds_left=1.0,
        attempts_left=1,
        pending=generation.proposals,
    )
    assert ActivityEnvironment().run(author.propose, ask).may_go_ahead
    assert seen == [((), tuple(proposals))]


def test_a_settling_that_was_killed_after_its_promotion_ends_with_that(ledger, tmp_path):
    """Raced again the other finalist might win: a task would have two winners in one run."""
    blobs = BlobStore(tmp_path / "blobs")
    proposals, _ = _built_generation(ledger, blobs)
    accepted = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=4, worst_error_in_bounds=0.5)
    for proposal, speedup in zip(proposals, (1.5, 1.25), strict=True):
        attempt = Attempt(proposal=proposal, verdict=accepted, measurement=measurement(speedup))
        assert ledger.put_attempt("run", TASK.id, attempt)
        assert not ledger.put_attempt("run", TASK.id, attempt)
    slower = proposals[1].candidate.id
    gates = (Gate(name="confirmed win", figure=1.25, bound="> 1.03", passed=True),)
    ledger.put_promotion("run", PromotionDecision(task_id=TASK.id, candidate_id=slower, gates=gates))

    activities = DeviceSearchActivities(
        ledger, blobs, judge=None, sanitizers=None, benchmark=None, live=None, count=None
    )
    ActivityEnvironment().run(
        activities.settle_winner, SettleInput(run_id="run", task_id=TASK.id, stop_reason="budget")
    )
    (end,) = ledger.search_ends("run")
    assert (end.decision, end.candidate_id) == ("won", slower)


def test_of_two_tries_that_measure_the_first_counts_for_both(ledger, tmp_path):
    (first, _), _ = _built_generation(ledger, BlobStore(tmp_path / "blobs"))
    earlier, later = measurement(1.5), measurement(1.25)
    assert ledger.put_measurement("run", TASK.id, first.candidate.id, earlier) == earlier
    assert ledger.put_measurement("run", TASK.id, first.candidate.id, later) == earlier


class RememberingAgent:
    name = "llm"

    def __init__(self):
        self.budgets = []

    def propose(self, task, attempts, budget):
        self.budgets.append(budget)
        return Stop(reason="budget", message="nothing left")


def _ask(models: ModelBudget, round_number: int = 0) -> ProposeInput:
    return ProposeInput(
        run_id="run",
        task_id=TASK.id,
        agent="llm",
        round_number=round_number,
        models=models,
        seconds_left=3.0,
        attempts_left=2,
    )


@pytest.fixture
def ledger(tmp_path):
    ledger = Ledger(f"sqlite:///{tmp_path / 'ledger.sqlite'}")
    ledger.open_run(RunRequest(traces=("/t.jsonl",), trace_digest="0" * 64, model="m"), "run")
    ledger.put_task(TASK)
    return ledger


def test_a_round_has_a_name_and_accounts_with_their_caps(ledger, tmp_path):
    agent, calls, op = RememberingAgent(), ModelCalls(ledger), f"run/{TASK.id[:16]}"
    author = AuthorActivities(ledger, BlobStore(tmp_path / "blobs"), {"llm": agent}.__getitem__)
    models = ModelBudget(endpoints=("claude", "local"), run=Caps(usd=5.0), op=Caps(usd=1.0, calls=7))
    for number in (0, 0, 1):
        generation = ActivityEnvironment().run(author.propose, _ask(models, number))
    assert generation.stop_reason == "budget: nothing left"
    names = [budget.round_id for budget in agent.budgets]
    assert names == [f"{op}/llm/round-{number}-after-0" for number in (0, 0, 1)]
    assert {(budget.models, budget.accounts) for budget in agent.budgets} == {(("claude", "local"), ("run", op))}
    assert calls.balance("run").caps == models.run
    assert calls.balance(op).caps == models.op


def test_a_run_that_names_no_model_has_no_account(ledger, tmp_path):
    agent = RememberingAgent()
    author = AuthorActivities(ledger, BlobStore(tmp_path / "blobs"), {"llm": agent}.__getitem__)
    ActivityEnvironment().run(author.propose, _ask(ModelBudget()))
    assert agent.budgets[0].accounts == agent.budgets[0].models == ()
    with pytest.raises(LedgerError):
        ModelCalls(ledger).balance("run")


class SlowFirstBuilder:
    def build(self, task, candidate):
        time.sleep(0.2 if "first" in candidate.source else 0.0)
        return Rejected(reason=Reason.BUILD_FAILED, workload=None, evidence=Evidence(message="no"), seed=1)


def test_failed_builds_are_recorded_in_the_order_of_the_proposals(ledger, tmp_path):
    blobs = BlobStore(tmp_path / "blobs")
    proposals = [
        Proposal(candidate=Candidate(language=LanguageName.CPP, source=f"void {name}() {{}}"), agent="llm")
        for name in ("first", "second", "third")
    ]
    generation = Generation(
        run_id="run",
        task_id=TASK.id,
        proposals=tuple(blobs.put(proposal.model_dump_json().encode()) for proposal in proposals),
        wall_s=0.0,
    )
    build = BuildActivities(ledger, blobs, SlowFirstBuilder(), CountedReports(), parallel=3)
    ActivityEnvironment().run(build.build_generation, generation)
    assert [attempt.proposal for attempt in ledger.attempts("run", TASK.id)] == proposals


def test_a_kernel_whose_artifact_is_gone_is_built_once_more(ledger, tmp_path):
    """Pruned, or left behind on another machine."""
    blobs = BlobStore(tmp_path / "blobs")
    proposals, generation = _built_generation(ledger, blobs)
    artifacts = {ledger.artifact(TASK.id, proposal.candidate.id) for proposal in proposals}
    for lost in [blob for blob in blobs.list() if blob.digest in artifacts]:
        blobs.remove(lost)
    build = BuildActivities(ledger, blobs, FixedBuilder(b"built anew"), CountedReports(), parallel=1)
    ActivityEnvironment().run(build.build_generation, generation)
    for proposal in proposals:
        assert blobs.get(ledger.artifact(TASK.id, proposal.candidate.id)) == b"built anew"
    other = BuildActivities(ledger, blobs, FixedBuilder(b"built again"), CountedReports(), parallel=1)
    ActivityEnvironment().run(other.build_generation, generation)
    assert blobs.get(ledger.artifact(TASK.id, proposals[0].candidate.id)) == b"built anew"


class FixedBuilder:
    def __init__(self, artifact):
        self._artifact = artifact

    def build(self, task, candidate):
        return self._artifact


class CountedReports:
    """Says how often it was asked, or that the machine has no compiler."""

    def __init__(self, fault=None):
        self.asked, self.fault = [], fault

    def report(self, task, candidate):
        self.asked.append(candidate.id)
        if self.fault is not None:
            raise self.fault
        return CompilerReport(notes=(f"asked {len(self.asked)} times",))


def _ended_search(ledger, tmp_path, candidate_id, decision="lost"):
    """Activities over a ledger in which the search of TASK has ended with this best candidate, and their reports."""
    end = SearchEnd(task_id=TASK.id, op=TASK.op, decision=decision, candidate_id=candidate_id, reason="so", tried=1)
    ledger.put_search_end("run", end)
    reports = CountedReports()
    return BuildActivities(ledger, BlobStore(tmp_path / "blobs"), SlowFirstBuilder(), reports, parallel=1), reports


def test_the_best_candidate_of_a_search_is_reported_once(ledger, tmp_path):
    candidate = Candidate(language=LanguageName.CPP, source="void best() {}")
    ledger.put_candidate(candidate)
    build, reports = _ended_search(ledger, tmp_path, candidate.id)
    for _ in range(2):
        ActivityEnvironment().run(build.report_best, ReportInput(run_id="run", task_id=TASK.id))
    assert reports.asked == [candidate.id]
    assert RecordedReports(ledger).of(TASK.id, candidate.id).notes == ("asked 1 times",)


def test_a_search_without_a_best_candidate_asks_no_compiler(ledger, tmp_path):
    build, reports = _ended_search(ledger, tmp_path, None, "no_program")
    ActivityEnvironment().run(build.report_best, ReportInput(run_id="run", task_id=TASK.id))
    assert reports.asked == []


def test_a_compiler_that_is_not_there_leaves_no_report(ledger, tmp_path):
    candidate = Candidate(language=LanguageName.CPP, source="void best() {}")
    ledger.put_candidate(candidate)
    build, reports = _ended_search(ledger, tmp_path, candidate.id)
    reports.fault = CompilerUnavailable("no g++")
    with pytest.raises(CompilerUnavailable):
        ActivityEnvironment().run(build.report_best, ReportInput(run_id="run", task_id=TASK.id))
    assert RecordedReports(ledger).of(TASK.id, candidate.id) is None
