"""A run on a home whose live build has two kernels, without the hours that a real one takes."""

from dataclasses import dataclass, field
from pathlib import Path

from temporalio.testing import ActivityEnvironment

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.hot_ops import HotOp
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.measurement import Decision, Interval, Measurement
from candidates.promotion import EndToEnd
from candidates.run import LIVE_CHECKS, LiveChecks, Ranking, ReplayRecord, RunRequest, Stage
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.task import KernelTask
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected, Verdict
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.settings import EngineSettings
from workflows.activities.live import LiveActivities
from workflows.activities.ship import ShipActivities
from workflows.payloads import ShipInput

SPREAD = Distribution(mean=1.0, p50=1.0, p90=1.0, p99=1.0)
REPLAY = ReplayRecord(
    report=ReplayReport(
        engine=EngineSettings(kv_capacity_tokens=1 << 16),
        max_context_tokens=1024,
        requests=RequestCounts(read=1, kept=1, dropped={}, truncated=0),
        prefix_hit_rate=0.0,
        has_prefix_identity=False,
        ttft_s=SPREAD,
        tpot_s=None,
        latency_s=SPREAD,
        throughput_tokens_per_s=1.0,
        goodput_tokens_per_s=1.0,
        preemptions=0,
        steps=1,
        distinct_steps=1,
        wall_s=1.0,
        utilisation=0.5,
        arrival_scale=1.0,
        span_s=1.0,
    ),
    steps=(),
    span_s=1.0,
    covered_share=1.0,
)
SHIP = ShipInput(run_id="run", device_id="cpu")
ACCEPTED = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=2, worst_error_in_bounds=0.1)
REJECTED = Rejected(reason=Reason.WRONG_VALUES, workload=None, evidence=Evidence(message="off by two"), seed=1)


FIGURES = {
    "threads": 1,
    "decode_tokens_per_s": {},
    "prefill_tokens_per_s": {},
    "ttft_s": {},
    "speedup": 1.3,
    "speedup_interval": Interval(1.2, 1.4),
    "decode_speedup": 1.5,
    "decode_speedup_interval": Interval(1.4, 1.6),
    "prefill_speedup": 1.0,
    "prefill_speedup_interval": Interval(0.98, 1.02),
    "kl_divergence": 1e-9,
    "positions": 2000,
    "greedy_agreement": 1.0,
    "greedy_positions": 1990,
    "misses": {},
    "wall_s": 1.0,
    "peak_memory_bytes": {"eager": 100, "build": 110},
    "kl_of_long": 1e-9,
    "kl_noise": 0.0,
    "logprob_drift": 0.0,
    "logit_noise": 0.0,
    "row_split_difference": 0.0,
}


@dataclass
class Night:
    """A run on a home whose live build has two kernels."""

    home: Path
    ledger: Ledger
    blobs: BlobStore
    device: DeviceFingerprint
    live: Build
    verdict: Verdict = ACCEPTED
    decision: Decision = Decision.WIN
    judged: list[str] = field(default_factory=list)

    def judge(self, task: KernelTask, candidate: Candidate, artifact: bytes) -> Verdict:
        self.judged.append(task.op)
        return self.verdict

    def confirm(self, task: KernelTask, candidate: Candidate, artifact: bytes, most_s: float) -> Measurement:
        measured = self.live.manifest.kernels[0].measurement
        low = 1.9 if self.decision is Decision.WIN else 0.8
        return measured.model_copy(
            update={
                "decision": self.decision,
                "workloads": tuple(
                    measured.workloads[0].model_copy(
                        update={
                            "workload": workload.name,
                            "decision": self.decision,
                            "interval": Interval(low, low + 0.1),
                        }
                    )
                    for workload in task.public_workloads
                ),
            }
        )

    def ranks(self, *tasks: KernelTask) -> None:
        for task in tasks:
            self.ledger.put_task(task)
        entries = {entry.op: entry for entry in self.live.manifest.kernels}
        ranking = Ranking(
            coverage=1.0,
            threads=1,
            eager_decode_us_by_threads={},
            hot_ops=tuple(
                HotOp(
                    op=task.op,
                    site=task.site,
                    level=task.level,
                    task_id=task.id,
                    share_of_time=0.1,
                    share_by_class={},
                    time_us=1.0,
                    floor_us=0.5,
                    recoverable_share=0.05,
                    workloads=(),
                )
                for task in tasks
            ),
            sites={task.id: entries[task.op].site for task in tasks},
            rank_correlation={},
            unmatched={},
        )
        self.ledger.put_stage("run", Stage.RANKING, ranking)

    def looks_at_live(self) -> None:
        activities = LiveActivities(self.ledger, self.blobs, self.home, self.device, self, lambda task: self)  # type: ignore[arg-type, return-value]
        for _ in range(2):  # the second time is a retry
            ActivityEnvironment().run(activities.check_live, SHIP)

    def checks(self) -> dict[str, tuple[str, str]]:
        """By op: what becomes of it, and why."""
        self.looks_at_live()
        checks = self.ledger.stage("run", LIVE_CHECKS, LiveChecks)
        assert checks is not None
        return {check.op: (check.outcome, check.reason) for check in checks.kernels}

    def ships(self) -> dict[str, str]:
        """Kernels of the run's build, by op."""
        activities = ShipActivities(self.ledger, self.blobs, self.home, self.device)
        shipped = ActivityEnvironment().run(activities.assemble_build, SHIP)
        if shipped.build_id is None:
            return {}
        return {entry.op: entry.id for entry in BuildStore(self.home).show(shipped.build_id).manifest.kernels}

    def concludes(self, live_build: str | None) -> None:
        """After gates that the run's build passes; `live_build` was live meanwhile."""
        record = self.ledger.build_of(SHIP.run_id)
        if record is not None:
            hits = {entry.id: 1 for entry in BuildStore(self.home).show(record.id).manifest.kernels}
            figures = FIGURES | {"build_id": record.id, "hits": hits, "live_build": live_build}
            self.ledger.put_stage(SHIP.run_id, Stage.END_TO_END, EndToEnd.model_validate(figures))
        activities = ShipActivities(self.ledger, self.blobs, self.home, self.device)
        ActivityEnvironment().run(activities.conclude_run, SHIP)


def make_night(home: Path, device: DeviceFingerprint, kernels: list[ShippedKernel], **request: object) -> Night:
    ledger, blobs = Ledger(f"sqlite:///{home}/ledger.sqlite"), BlobStore(home / "blobs")
    asked = RunRequest.model_validate({"traces": ("t",), "trace_digest": "0", "model": "tiny"} | request)
    ledger.open_run(asked, SHIP.run_id)
    for kernel in kernels:
        ledger.put_task(kernel.task)
        ledger.put_candidate(kernel.candidate)
        ledger.put_artifact(kernel.task.id, kernel.candidate.id, blobs.put(kernel.artifact))
    live = write_build(home, "tiny", device, kernels)
    BuildStore(home).approve(live.id, by="test")
    return Night(home=home, ledger=ledger, blobs=blobs, device=device, live=live)
