"""Kernels with every kind of fact that a page of theirs shows, put into a board's ledger."""

from candidates.agent import Attempt
from candidates.candidate import Candidate, LanguageName, Proposal
from candidates.gpu_counters import Counter, KernelCounters, WorkloadCounters
from candidates.ledger.evaluations import Evaluations
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.promotion import Gate, PromotionDecision
from candidates.run import RunRequest
from candidates.task import KernelTask
from candidates.verdict import Accepted, EvidenceKind, NeedsDevice, Rejected, Verdict
from leaderboard.board import Board
from tests.candidates.past_searches import double_task

TASK = double_task(rows=(4, 16))
RIGHT = Accepted(evidence=EvidenceKind.NATIVE, seed=7, calls_checked=1234, worst_error_in_bounds=0.25)
INTERPRETED = Accepted(evidence=EvidenceKind.INTERPRETED, seed=7, calls_checked=12, worst_error_in_bounds=0.25)
WAITS = NeedsDevice(target="cuda-77", note="bits of bfloat16 are not to be trusted here")
SCRIPT = "<script>alert(1)</script>"
IMAGE = '"><img src=x onerror=alert(1)>'
ODD = "\x00\x1b[2J\u202etxt.exe\u2066"
HOSTILE = SCRIPT + IMAGE + ODD
NAME = HOSTILE.replace("\0", "")
"""For columns, which take no NUL."""


def wrong(text: str = "element (0, 3) differs", **evidence: object) -> Rejected:
    worst = {"output": f"out0 {text}", "index": (0, 3), "expected": "1.0", "got": f"nan {text}", "bound": "1e-6"}
    return Rejected.model_validate(
        {
            "reason": "wrong_values",
            "workload": f"rows=4 {text}",
            "seed": 9,
            "evidence": {
                "message": text,
                "distribution": text,
                "worst": worst,
                "share_of_elements_wrong": 0.5,
                "log_tail": f"log {text}",
                **evidence,
            },
        }
    )


def measure(
    speedup: float, stage: Stage = Stage.CONFIRM, workloads: tuple[str, ...] = ("rows=4", "rows=16")
) -> Measurement:
    decision = Decision.WIN if speedup > 1 else Decision.LOSE
    return Measurement(
        stage=stage,
        device_id=TASK.device_id,
        threads=1,
        workloads=tuple(
            WorkloadMeasurement(
                workload=name,
                candidate_us=12.0,
                kernel_only_us=10.0,
                device_us=9.0,
                is_graph=True,
                baselines_us={Baseline.EAGER: 12 * speedup, Baseline.COMPILE: 48.0},
                best_baseline=Baseline.EAGER,
                speedup_over_best=speedup,
                interval=Interval(speedup * 0.95, speedup * 1.05),
                pairs=60,
                share_of_floor=0.5,
                parameters_are_cold=True,
                decision=decision,
            )
            for name in workloads
        ),
        traffic_weighted_speedup=speedup,
        interval=Interval(speedup * 0.95, speedup * 1.05),
        decision=decision,
        prepare_us=1500.0,
        prepared_bytes=2_000_000,
        wall_s=3.0,
    )


COUNTED = WorkloadCounters(
    workload="rows=4",
    kernels=(
        KernelCounters(
            kernel="double", launch=0, counters=(Counter(metric="sm__warps_active.x", value=61.0, unit="%"),)
        ),
    ),
)


class KnownKernels:
    def __init__(self, board: Board) -> None:
        self.ledger = board.ledger
        self.ledger.put_task(TASK)

    def open_run(self, run_id: str) -> str:
        return self.ledger.open_run(RunRequest(traces=(run_id,), trace_digest="0", model="tiny"), run_id)

    def put(self, source: str = "void kernel() {}", language: str = "cpp", **candidate: object) -> Candidate:
        made = Candidate.model_validate({"language": language, "source": source, **candidate})
        self.ledger.put_candidate(made)
        return made

    def attempt(
        self,
        candidate: Candidate,
        verdict: Verdict,
        run_id: str = "run-1",
        *,
        task: KernelTask = TASK,
        screened: Measurement | None = None,
        counters: WorkloadCounters | None = None,
        **proposal: object,
    ) -> None:
        self.open_run(run_id)
        self.ledger.put_task(task)
        proposed = Proposal.model_validate({"candidate": candidate, "agent": "search", **proposal})
        attempt = Attempt(proposal=proposed, verdict=verdict, measurement=screened, counters=counters)
        self.ledger.put_attempt(run_id, task.id, attempt)

    def evaluate(self, candidate: Candidate, verdict: Verdict, measured: Measurement | None = None) -> None:
        proposal = Proposal(candidate=candidate, agent="hand")
        Evaluations(self.ledger).put(TASK.id, Attempt(proposal=proposal, verdict=verdict, measurement=measured))

    def measured(self, candidate: Candidate, measurement: Measurement, run_id: str = "run-1") -> None:
        self.ledger.put_measurement(run_id, TASK.id, candidate.id, measurement)

    def promote(self, candidate: Candidate, run_id: str = "run-1", *, passed: bool = True) -> None:
        gates = (
            Gate(name="confirmed win", figure=2.0, bound="> 1.03", passed=True),
            Gate(name="no workload slower", figure="0.97", bound="0.99", passed=passed),
        )
        decision = PromotionDecision(task_id=TASK.id, candidate_id=candidate.id, gates=gates)
        self.ledger.put_promotion(run_id, decision)

    def winner(self, source: str = "void kernel() { /* best */ }", **candidate: object) -> Candidate:
        """Screened, raced, confirmed and promoted."""
        made = self.put(source, **candidate)
        self.attempt(made, RIGHT, screened=measure(1.9, Stage.SCREEN))
        self.measured(made, measure(2.1, Stage.RACE))
        self.measured(made, measure(2.0))
        self.promote(made)
        return made


LANGUAGES = tuple(LanguageName)
