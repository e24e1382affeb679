"""Activities that ship: winners into a build, the build through its end-to-end gate, the report of the run."""

from collections.abc import Mapping
from pathlib import Path
from typing import TypeVar

from temporalio import activity

from candidates.device import DeviceFingerprint
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.measurement import Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import EndToEnd, decide_build
from candidates.run import (
    BuildRecord,
    BuildReport,
    OpDecision,
    OpReport,
    Progress,
    Ranking,
    ReplayRecord,
    RunReport,
    SearchEnd,
    Stage,
)
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.end_to_end import measure_end_to_end
from candidates.serving_build.manifest import ranges_of_wins
from candidates.serving_build.served_process import ModelFiles
from kernel_sandbox.sandbox import Sandbox
from traces.served_model import open_model
from workflows.activities.heartbeat import beating
from workflows.payloads import ShipInput, ShippedBuild

T = TypeVar("T")

AUTOMATIC = "setting approve_automatically"


class ShipActivities:
    def __init__(self, ledger: Ledger, blobs: BlobStore, home: Path, device: DeviceFingerprint) -> None:
        self._ledger, self._blobs, self._home, self._device = ledger, blobs, home, device

    @activity.defn
    def assemble_build(self, ship: ShipInput) -> ShippedBuild:
        """The promoted kernels of the run as one content-addressed folder; the same again when tried again."""
        request = self._ledger.run_request(ship.run_id)
        ranking = _required(self._ledger.stage(ship.run_id, Stage.RANKING, Ranking), "ranking")
        kernels = []
        for decision in self._ledger.promotions(ship.run_id):
            if not decision.is_promoted:
                continue
            task = self._ledger.task(decision.task_id)
            measurement = _required(
                self._ledger.measurement(ship.run_id, task.id, decision.candidate_id, MeasurementStage.CONFIRM),
                "confirmation",
            )
            kernels.append(
                ShippedKernel(
                    task=task,
                    candidate=self._ledger.candidate(decision.candidate_id),
                    artifact=self._blobs.get(
                        _required(self._ledger.artifact(task.id, decision.candidate_id), "artifact")
                    ),
                    site=ranking.sites[task.id],
                    measurement=measurement,
                    ranges=ranges_of_wins(task, measurement),
                )
            )
        if not kernels:
            return ShippedBuild(build_id=None)
        build = write_build(self._home, request.model, self._device, kernels)
        self._ledger.put_build(ship.run_id, BuildRecord(id=build.id, path=str(build.path)))
        self._tell(ship.run_id, Stage.BUILD, f"build {build.id[:12]} with {len(kernels)} kernels")
        return ShippedBuild(build_id=build.id)

    @activity.defn
    def conclude_run(self, ship: ShipInput) -> None:
        """Decides, approves if the user's setting says so, and writes the report that ends the run."""
        report = self._report(ship.run_id)
        store = BuildStore(self._home)
        request = self._ledger.run_request(ship.run_id)
        if report.build is not None and request.approve_automatically and _passed(report.build):
            if store.current() != report.build.id:
                self._ledger.put_approval(report.build.id, store.approve(report.build.id, by=AUTOMATIC))
            report = report.model_copy(update={"build": report.build.model_copy(update={"live": True})})
        self._ledger.end_run(report)

    def _report(self, run_id: str) -> RunReport:
        ranking = _required(self._ledger.stage(run_id, Stage.RANKING, Ranking), "ranking")
        replay = _required(self._ledger.stage(run_id, Stage.REPLAY, ReplayRecord), "replay")
        end_to_end = self._ledger.stage(run_id, Stage.END_TO_END, EndToEnd)
        build = self._ledger.build_of(run_id)
        build_report = None
        if build is not None and end_to_end is not None:
            build_report = BuildReport(
                id=build.id,
                path=build.path,
                kernels=sum(decision.is_promoted for decision in self._ledger.promotions(run_id)),
                live=BuildStore(self._home).current() == build.id,
                gates=decide_build(end_to_end),
            )
        ends = {end.task_id: end for end in self._ledger.search_ends(run_id)}
        is_shipped = build_report is not None and _passed(build_report)
        return RunReport(
            run_id=run_id,
            replay=replay.report,
            coverage=ranking.coverage,
            rank_correlation=ranking.rank_correlation,
            hot_ops=self._op_reports(run_id, ranking, ends, is_shipped),
            build=build_report,
            end_to_end=end_to_end,
            spend_usd=sum(
                attempt.proposal.cost_usd for task_id in ends for attempt in self._ledger.attempts(run_id, task_id)
            ),
            wall_s=self._ledger.run_age_s(run_id),
        )

    def _op_reports(
        self, run_id: str, ranking: Ranking, ends: Mapping[str, SearchEnd], is_shipped: bool
    ) -> tuple[OpReport, ...]:
        reports = []
        for hot_op in ranking.hot_ops:
            end = ends.get(hot_op.task_id or "")
            measurement = self._latest_measurement(run_id, end)
            decision, reason = _decide_op(end, is_shipped, hot_op.obstacle)
            weights = {workload.shape: workload.calls_per_hour for workload in hot_op.workloads}
            reports.append(
                OpReport(
                    op=hot_op.op,
                    site=hot_op.site,
                    level=hot_op.level,
                    candidate=end.candidate_id if end is not None else None,
                    share_of_time=hot_op.share_of_time,
                    share_by_class=hot_op.share_by_class,
                    best_baseline=measurement.heaviest(weights).best_baseline if measurement is not None else None,
                    speedup_over_best=measurement.traffic_weighted_speedup if measurement is not None else None,
                    interval=measurement.interval if measurement is not None else None,
                    share_of_floor=measurement.heaviest(weights).share_of_floor if measurement is not None else None,
                    decision=decision,
                    reason=reason,
                )
            )
        return tuple(reports)

    def _latest_measurement(self, run_id: str, end: SearchEnd | None) -> Measurement | None:
        if end is None or end.candidate_id is None:
            return None
        for stage in (MeasurementStage.CONFIRM, MeasurementStage.RACE):
            found = self._ledger.measurement(run_id, end.task_id, end.candidate_id, stage)
            if found is not None:
                return found
        return None

    def _tell(self, run_id: str, stage: Stage, message: str) -> None:
        self._ledger.add_progress(run_id, Progress(stage=stage, message=message))


class DeviceShipActivities:
    def __init__(self, ledger: Ledger, sandbox: Sandbox, home: Path) -> None:
        self._ledger, self._sandbox, self._home = ledger, sandbox, home

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None:
        """Measures the model with and without the run's build; without a build there is nothing to do."""
        build = self._ledger.build_of(ship.run_id)
        if build is None or self._ledger.stage(ship.run_id, Stage.END_TO_END, EndToEnd) is not None:
            return
        request = self._ledger.run_request(ship.run_id)
        ranking = _required(self._ledger.stage(ship.run_id, Stage.RANKING, Ranking), "ranking")
        replay = _required(self._ledger.stage(ship.run_id, Stage.REPLAY, ReplayRecord), "replay")
        self._ledger.add_progress(
            ship.run_id, Progress(stage=Stage.END_TO_END, message="the model with and without the build")
        )
        model = open_model(request.model, self._home)
        with beating():
            figures = measure_end_to_end(
                self._sandbox,
                ModelFiles(folder=model.folder(), tokenizer=model.tokenizer),
                Path(build.path),
                replay.steps,
                threads=ranking.threads,
                seconds=request.end_to_end_s,
                compile_seconds=request.compile_s,
            )
        self._ledger.put_stage(ship.run_id, Stage.END_TO_END, figures)
        self._ledger.add_progress(
            ship.run_id,
            Progress(
                stage=Stage.END_TO_END,
                best_speedup=figures.speedup,
                message=f"decode {figures.decode_speedup:.2f}x, prefill {figures.prefill_speedup:.2f}x of eager",
            ),
        )


def _decide_op(end: SearchEnd | None, is_shipped: bool, obstacle: str | None) -> tuple[OpDecision, str]:
    if end is None:
        if obstacle is not None:
            return OpDecision.NO_PROGRAM, obstacle
        return OpDecision.UNDECIDED, "not searched: others had more to win"
    if end.decision == "won":
        return (OpDecision.SHIPPED if is_shipped else OpDecision.WON_NOT_SHIPPED), end.reason
    return OpDecision(end.decision), end.reason


def _passed(build: BuildReport) -> bool:
    return all(gate.passed for gate in build.gates)


def _required(found: T | None, what: str) -> T:
    if found is None:
        raise RuntimeError(f"the run has no {what}: an earlier activity did not record it")
    return found
