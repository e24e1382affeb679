"""The activity that judges what is live again: kernels that no longer hold leave the next build, and it says why."""

from collections.abc import Callable
from pathlib import Path

from temporalio import activity

from candidates.agent import Attempt
from candidates.benchmark.benchmark import Benchmark
from candidates.candidate import Proposal
from candidates.device import DeviceFingerprint
from candidates.judge.judge import Judge
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.ledger.retractions import Retractions
from candidates.measurement import Measurement
from candidates.promotion import Gate, PromotionDecision, decide_promotion
from candidates.run import LIVE_CHECKS, LiveCheck, LiveChecks, Progress, Ranking, Stage
from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import is_same_place, live_kernel, live_task, read_live
from candidates.serving_build.manifest import KernelEntry
from candidates.task import KernelTask
from candidates.verdict import Rejected
from workflows.activities.heartbeat import beating
from workflows.payloads import ShipInput

CONFIRM_S = 20.0
AGENT = "live"


class LiveActivities:
    def __init__(
        self,
        ledger: Ledger,
        blobs: BlobStore,
        home: Path,
        device: DeviceFingerprint,
        judge: Judge,
        benchmark: Callable[[KernelTask], Benchmark | None],
    ) -> None:
        self._ledger, self._blobs, self._home, self._device = ledger, blobs, home, device
        self._judge, self._benchmark = judge, benchmark

    @activity.defn
    def check_live(self, ship: ShipInput) -> None:
        """Judges and measures again what is live at the run's sites, where anything has changed since: PyTorch, the
        compiler, the model or the traffic. A kernel for which the run has a better one makes way for it."""
        request = self._ledger.run_request(ship.run_id)
        build = read_live(BuildStore(self._home), self._device)
        ranking = self._ledger.stage(ship.run_id, Stage.RANKING, Ranking)
        if build is None or build.manifest.model != request.model or ranking is None:
            return
        if self._ledger.stage(ship.run_id, LIVE_CHECKS, LiveChecks) is not None:
            return
        tasks = [self._ledger.task(task_id) for task_id in ranking.sites]
        promoted = [d.task_id for d in self._ledger.promotions(ship.run_id) if d.is_promoted]
        checks = []
        with beating():
            for entry in build.manifest.kernels:
                old = live_task(build, entry)
                task = next((task for task in tasks if is_same_place(task, old)), None)
                is_beaten = task is not None and task.id in promoted
                stays, reason = (False, "beaten") if is_beaten else self._check(ship.run_id, build, entry, task)
                checks.append(
                    LiveCheck(
                        candidate_id=entry.id,
                        op=entry.op,
                        task_id=None if task is None else task.id,
                        stays=stays,
                        is_beaten=is_beaten,
                        reason=reason,
                    )
                )
                if not stays:
                    message = f"{entry.op}: the live kernel leaves: {reason}"
                    self._ledger.add_progress(ship.run_id, Progress(stage=Stage.BUILD, op=entry.op, message=message))
        self._ledger.put_stage(ship.run_id, LIVE_CHECKS, LiveChecks(build_id=build.id, kernels=tuple(checks)))

    def _check(self, run_id: str, build: Build, entry: KernelEntry, task: KernelTask | None) -> tuple[bool, str]:
        """Whether it stays, and why."""
        retraction = Retractions(self._ledger).of(entry.id)
        if retraction is not None:
            return False, f"retracted: {retraction.reason}"
        if task is None:
            return False, "neither model nor traffic has its op any more"
        if task.id == entry.task_id:
            unchanged = Gate(name="nothing has changed since it won", figure=build.id[:12], bound="live", passed=True)
            promotion = PromotionDecision(task_id=task.id, candidate_id=entry.id, gates=(unchanged,))
            self._promote(run_id, promotion, entry.measurement)
            return True, unchanged.name
        live = live_kernel(build, entry, self._ledger.candidate(entry.id))
        verdict = self._judge.judge(task, live.candidate, live.artifact)
        proposal = Proposal(candidate=live.candidate, agent=AGENT)
        if isinstance(verdict, Rejected):
            self._ledger.put_attempt(run_id, task.id, Attempt(proposal=proposal, verdict=verdict))
            return False, f"rejected: {verdict.reason.value}: {verdict.evidence.message}"
        benchmark = self._benchmark(task)
        if benchmark is None:
            return False, "nothing here times kernels for its device"
        measured = benchmark.confirm(task, live.candidate, live.artifact, most_s=CONFIRM_S)
        if not isinstance(measured, Measurement):
            return False, f"rejected: {measured.reason.value}: {measured.evidence.message}"
        self._ledger.put_attempt(run_id, task.id, Attempt(proposal=proposal, verdict=verdict))
        self._ledger.put_artifact(task.id, entry.id, self._blobs.put(live.artifact))
        promotion = decide_promotion(task.id, entry.id, verdict, measured)
        self._promote(run_id, promotion, measured)
        failed = ", ".join(gate.name for gate in promotion.gates if not gate.passed)
        return promotion.is_promoted, f"not passed: {failed}" if failed else "it still wins"

    def _promote(self, run_id: str, promotion: PromotionDecision, measured: Measurement) -> None:
        self._ledger.put_measurement(run_id, promotion.task_id, promotion.candidate_id, measured)
        self._ledger.put_promotion(run_id, promotion)
