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
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.measurement import Measurement
from candidates.promotion import UNCHANGED, Gate, PromotionDecision, decide_promotion
from candidates.run import LIVE_CHECKS, LiveCheck, LiveChecks, LiveOutcome, Progress, Ranking, Stage
from candidates.serving_build.build import Build
from candidates.serving_build.build_files import task_of
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import is_same_place, read_live
from candidates.serving_build.manifest import KernelEntry
from candidates.task import KernelTask
from candidates.verdict import Rejected
from workflows.activities.search import CONFIRM_S
from workflows.payloads import ShipInput

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
        compiler, the model or the traffic. A kernel for which the run has a better one makes way for it. A run for GPUs
        has nothing to say of them: builds are for CPUs."""
        request = self._ledger.run_request(ship.run_id)
        build = read_live(BuildStore(self._home), self._device)
        ranking = self._ledger.stage(ship.run_id, Stage.RANKING, Ranking)
        if build is None or build.manifest.model != request.model or ranking is None or request.architectures:
            return
        if self._ledger.stage(ship.run_id, LIVE_CHECKS, LiveChecks) is not None:
            return
        tasks = [self._ledger.task(task_id) for task_id in ranking.sites]
        checks = []
        flaws = Flaws(self._ledger)
        for entry in build.manifest.kernels:
            old = task_of(build, entry)
            task = next((task for task in tasks if is_same_place(task, old)), None)
            outcome, reason = self._check(ship.run_id, build, entry, task, flaws.of(entry.id))
            task_id = None if task is None else task.id
            check = LiveCheck(candidate_id=entry.id, op=entry.op, task_id=task_id, outcome=outcome, reason=reason)
            checks.append(check)
            if not check.stays:
                message = f"{entry.op}: the live kernel leaves the next build: {reason}"
                self._ledger.add_progress(ship.run_id, Progress(stage=Stage.BUILD, op=entry.op, message=message))
        self._ledger.put_stage(ship.run_id, LIVE_CHECKS, LiveChecks(build_id=build.id, kernels=tuple(checks)))

    def _check(
        self, run_id: str, build: Build, entry: KernelEntry, task: KernelTask | None, flaw: str | None
    ) -> tuple[LiveOutcome, str]:
        """What becomes of it, and why."""
        if flaw is not None:
            return "wrong", flaw
        if task is None:
            return "gone", "neither model nor traffic has its op any more"
        decisions = {d.candidate_id: d for d in self._ledger.promotions(run_id) if d.task_id == task.id}
        if any(d.is_promoted for candidate_id, d in decisions.items() if candidate_id != entry.id):
            return "beaten", "a kernel of this run is faster"
        if (decided := decisions.get(entry.id)) is not None:  # found once more, or this was begun before
            return _outcome_of(decided)
        # What was recorded when it was built: whoever can write to the folder of builds must not choose what is signed.
        blob = self._ledger.artifact(task.id, entry.id) or self._ledger.artifact(entry.task_id, entry.id)
        if blob is None:
            return "lost", "the ledger does not know its artifact"
        if task.id == entry.task_id:
            unchanged = Gate(name=UNCHANGED, figure=build.id[:12], bound="live", passed=True)
            decided = PromotionDecision(task_id=task.id, candidate_id=entry.id, gates=(unchanged,))
            return self._promote(run_id, decided, entry.measurement)
        self._ledger.put_artifact(task.id, entry.id, blob)
        candidate, artifact = self._ledger.candidate(entry.id), self._blobs.get(blob)
        verdict = self._judge.judge(task, candidate, artifact)
        proposal = Proposal(candidate=candidate, agent=AGENT)
        self._ledger.put_attempt(run_id, task.id, Attempt(proposal=proposal, verdict=verdict))
        if isinstance(verdict, Rejected):
            return "wrong", f"rejected: {verdict.reason.value}: {verdict.evidence.message}"
        benchmark = self._benchmark(task)
        if benchmark is None:
            return "lost", "nothing here times kernels for its device"
        measured = benchmark.confirm(task, candidate, artifact, most_s=CONFIRM_S)
        if not isinstance(measured, Measurement):
            return "wrong", f"rejected: {measured.reason.value}: {measured.evidence.message}"
        return self._promote(run_id, decide_promotion(task.id, entry.id, verdict, measured), measured)

    def _promote(self, run_id: str, decided: PromotionDecision, measured: Measurement) -> tuple[LiveOutcome, str]:
        self._ledger.put_measurement(run_id, decided.task_id, decided.candidate_id, measured)
        self._ledger.put_promotion(run_id, decided)
        return _outcome_of(decided)


def _outcome_of(decided: PromotionDecision) -> tuple[LiveOutcome, str]:
    failed = ", ".join(gate.name for gate in decided.gates if not gate.passed)
    return ("lost", f"not passed: {failed}") if failed else ("stays", decided.gates[0].name)
