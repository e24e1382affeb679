"""What becomes of the live build's kernels in the next run, and what that run's build holds."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from temporalio.testing import ActivityEnvironment

from candidates.candidate import Candidate
from candidates.device import DeviceFingerprint
from candidates.hot_ops import HotOp
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.promotions import latest_promotion
from candidates.ledger.retractions import Retractions
from candidates.measurement import Decision, Interval, Measurement
from candidates.promotion import Gate, PromotionDecision, Retraction
from candidates.run import LIVE_CHECKS, LiveChecks, PromoteRequest, Ranking, ReplayRecord, RunRequest, Stage
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import entry_at, live_kernel, read_live
from candidates.task import KernelTask, Workload
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

    def checks(self) -> dict[str, tuple[bool, str]]:
        """By op: whether it stays, and why."""
        activities = LiveActivities(self.ledger, self.blobs, self.home, self.device, self, lambda task: self)  # type: ignore[arg-type, return-value]
        for _ in range(2):  # the second time is a retry
            ActivityEnvironment().run(activities.check_live, SHIP)
        checks = self.ledger.stage("run", LIVE_CHECKS, LiveChecks)
        assert checks is not None
        return {check.op: (check.stays, check.reason) for check in checks.kernels}

    def ships(self) -> dict[str, str]:
        """Kernels of the run's build, by op."""
        activities = ShipActivities(self.ledger, self.blobs, self.home, self.device)
        shipped = ActivityEnvironment().run(activities.assemble_build, SHIP)
        if shipped.build_id is None:
            return {}
        return {entry.op: entry.id for entry in BuildStore(self.home).show(shipped.build_id).manifest.kernels}


@pytest.fixture
def night(tmp_path: Path, device: DeviceFingerprint, rmsnorm: ShippedKernel, linear: ShippedKernel) -> Night:
    ledger, blobs = Ledger(f"sqlite:///{tmp_path}/ledger.sqlite"), BlobStore(tmp_path / "blobs")
    ledger.open_run(RunRequest(traces=("t",), trace_digest="0", model="tiny"), "run")
    for kernel in (rmsnorm, linear):
        ledger.put_task(kernel.task)
        ledger.put_candidate(kernel.candidate)
        ledger.put_artifact(kernel.task.id, kernel.candidate.id, blobs.put(kernel.artifact))
    store = BuildStore(tmp_path)
    live = write_build(tmp_path, "tiny", device, [rmsnorm, linear])
    store.approve(live.id, by="test")
    return Night(home=tmp_path, ledger=ledger, blobs=blobs, device=device, live=live)


def with_other_traffic(kernel: ShippedKernel) -> KernelTask:
    return kernel.task.model_copy(
        update={"workloads": (Workload(axes={"batch": 4, "tokens": 1}, calls_per_hour=30.0),)}
    )


def test_what_nothing_has_changed_for_stays_unmeasured(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.ranks(rmsnorm.task, linear.task)
    assert {stays for stays, _ in night.checks().values()} == {True}
    assert night.judged == []
    assert night.ships() == {"LlamaRMSNorm": rmsnorm.candidate.id, "Linear": linear.candidate.id}


def test_other_traffic_has_a_kernel_judged_again(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"] == (True, "it still wins")
    assert night.judged == ["LlamaRMSNorm"]
    assert night.ships().keys() == {"LlamaRMSNorm", "Linear"}


def test_a_new_compiler_has_every_kernel_judged_again(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.device = night.device.model_copy(update={"compiler": "g++ of tomorrow"})
    assert read_live(BuildStore(night.home), night.device) is not None
    night.ranks(*(kernel.task.model_copy(update={"device_id": night.device.id}) for kernel in (rmsnorm, linear)))
    assert {stays for stays, _ in night.checks().values()} == {True}
    assert sorted(night.judged) == ["Linear", "LlamaRMSNorm"]


def test_a_kernel_that_wins_no_more_leaves(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    night.decision = Decision.LOSE
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    stays, reason = night.checks()["LlamaRMSNorm"]
    assert not stays
    assert "confirmed win" in reason
    assert night.ships().keys() == {"Linear"}


def test_a_kernel_that_is_wrong_on_the_new_shapes_leaves(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.verdict = REJECTED
    night.ranks(with_other_traffic(rmsnorm), linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "rejected: wrong_values: off by two")
    assert night.ships().keys() == {"Linear"}


def test_a_retracted_kernel_leaves_and_says_why(night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel) -> None:
    Retractions(night.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="reads too far", by="test"))
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "retracted: reads too far")
    assert night.ships().keys() == {"Linear"}
    checks = night.ledger.stage("run", LIVE_CHECKS, LiveChecks)
    assert checks is not None
    assert checks.some_fail


def test_an_op_that_is_gone_leaves(night: Night, rmsnorm: ShippedKernel) -> None:
    night.ranks(rmsnorm.task)
    assert not night.checks()["Linear"][0]


def test_a_better_kernel_takes_the_place(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel, ship: object
) -> None:
    assert callable(ship)
    better = ship(rmsnorm.task, f"// better\n{rmsnorm.candidate.source}", rmsnorm.site)
    night.ledger.put_candidate(better.candidate)
    night.ledger.put_artifact(better.task.id, better.candidate.id, night.blobs.put(better.artifact))
    night.ledger.put_measurement("run", better.task.id, better.candidate.id, better.measurement)
    won = Gate(name="won", figure=2.0, bound="> 1", passed=True)
    night.ledger.put_promotion(
        "run", PromotionDecision(task_id=better.task.id, candidate_id=better.candidate.id, gates=(won,))
    )
    night.ranks(rmsnorm.task, linear.task)
    assert night.checks()["LlamaRMSNorm"] == (False, "beaten")
    assert night.ships() == {"LlamaRMSNorm": better.candidate.id, "Linear": linear.candidate.id}


def test_other_hardware_has_no_live_build(night: Night) -> None:
    other = night.device.model_copy(update={"model": "another processor"})
    assert read_live(BuildStore(night.home), other) is None


def test_the_live_kernel_of_a_task_is_what_was_shipped(night: Night, linear: ShippedKernel) -> None:
    entry = entry_at(night.live, with_other_traffic(linear))
    assert entry is not None
    assert live_kernel(night.live, entry, linear.candidate).artifact == linear.artifact


def test_a_promotion_ships_the_newest_kernel_of_a_task(
    night: Night, rmsnorm: ShippedKernel, linear: ShippedKernel
) -> None:
    night.ranks(rmsnorm.task, linear.task)
    night.checks()  # which records both kernels as promoted in `run`
    night.ledger.put_stage("run", Stage.REPLAY, REPLAY)
    base = night.ledger.run_request("run")
    request = PromoteRequest.model_validate(base.model_dump() | {"base_run": "run", "task_ids": (rmsnorm.task.id,)})
    night.ledger.open_run(request, "promotion")
    activities = ShipActivities(night.ledger, night.blobs, night.home, night.device)
    ship = ShipInput(run_id="promotion", device_id="cpu")
    for _ in range(2):
        ActivityEnvironment().run(activities.gather_wins, ship)
    shipped = ActivityEnvironment().run(activities.assemble_build, ship)
    kernels = BuildStore(night.home).show(shipped.build_id).manifest.kernels
    assert [entry.id for entry in kernels] == [rmsnorm.candidate.id]
    Retractions(night.ledger).put(Retraction(candidate_id=rmsnorm.candidate.id, reason="wrong", by="test"))
    assert latest_promotion(night.ledger, rmsnorm.task.id) is None
