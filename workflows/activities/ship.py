"""Activities that ship: winners into a build, the build through its end-to-end gate, the report of the run."""

from pathlib import Path
from typing import TypeVar

from sqlalchemy.orm import Session
from temporalio import activity

from candidates.benchmark.exclusive import exclusive_slot
from candidates.device import DeviceFingerprint
from candidates.ledger.approvals import Approvals
from candidates.ledger.blobs import BlobStore
from candidates.ledger.flaws import Flaws
from candidates.ledger.gates import found_in_run
from candidates.ledger.ledger import Ledger
from candidates.ledger.promotions import latest_promotion
from candidates.ledger.run_report import report_run
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import EndToEnd, PathName, WonKernel, choose_levels
from candidates.run import (
    BUILD_FAILURE,
    LIVE_CHECKS,
    BuildFailure,
    BuildRecord,
    LiveChecks,
    Progress,
    PromoteRequest,
    Ranking,
    ReplayRecord,
    RunReport,
    RunRequest,
    SearchEnd,
    Stage,
)
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore, LiveMoved
from candidates.serving_build.end_to_end import measure_end_to_end
from candidates.serving_build.live import read_live
from candidates.serving_build.manifest import ranges_of_wins
from candidates.serving_build.served_process import ModelFiles, ServedProcessEnded
from kernel_sandbox.sandbox import Sandbox
from traces.served_model import open_model
from workflows.payloads import ShipInput, ShippedBuild

T = TypeVar("T")

AUTOMATIC = "setting approve_automatically"


class ShipActivities:
    def __init__(self, ledger: Ledger, blobs: BlobStore, home: Path, device: DeviceFingerprint) -> None:
        self._ledger, self._blobs, self._home, self._device = ledger, blobs, home, device

    @activity.defn
    def gather_wins(self, ship: ShipInput) -> None:
        """Gives a promotion what a run has when it ships: replay and ranking of its base, and the kernels that won."""
        request = self._ledger.run_request(ship.run_id)
        if not isinstance(request, PromoteRequest):
            raise RuntimeError(f"{ship.run_id} is no promotion")
        for stage, kind in ((Stage.REPLAY, ReplayRecord), (Stage.RANKING, Ranking)):
            known = _required(self._ledger.stage(request.base_run, stage, kind), stage)
            self._ledger.put_stage(ship.run_id, stage, known)
        done = {decision.task_id for decision in self._ledger.promotions(ship.run_id)}
        for task_id in set(request.task_ids) - done:
            found = _required(latest_promotion(self._ledger, task_id), f"confirmed kernel for {task_id}")
            decision = found.decision
            measurement = self._ledger.measurement(
                found.run_id, task_id, decision.candidate_id, MeasurementStage.CONFIRM
            )
            self._ledger.put_measurement(
                ship.run_id, task_id, decision.candidate_id, _required(measurement, "confirmation")
            )
            self._ledger.put_promotion(ship.run_id, decision)
            self._ledger.put_search_end(
                ship.run_id,
                SearchEnd(
                    task_id=task_id,
                    op=self._ledger.task(task_id).op,
                    decision="won",
                    candidate_id=decision.candidate_id,
                    reason=f"won in {found.run_id}",
                    tried=0,
                ),
            )

    @activity.defn
    def assemble_build(self, ship: ShipInput) -> ShippedBuild:
        """The promoted kernels of the run as one content-addressed folder; the same again when tried again."""
        request = self._ledger.run_request(ship.run_id)
        ranking = _required(self._ledger.stage(ship.run_id, Stage.RANKING, Ranking), "ranking")
        kernels = []
        for decision in choose_levels(self._won(ship.run_id, ranking)):
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
        self._ledger.put_build(
            ship.run_id,
            BuildRecord(id=build.id, path=str(build.path), task_ids=tuple(kernel.task.id for kernel in kernels)),
        )
        self._tell(ship.run_id, Stage.BUILD, f"build {build.id[:12]} with {len(kernels)} kernels")
        return ShippedBuild(build_id=build.id)

    def _won(self, run_id: str, ranking: Ranking) -> tuple[WonKernel, ...]:
        shares = {hot_op.task_id: hot_op.share_of_time for hot_op in ranking.hot_ops}
        won, flaws = [], Flaws(self._ledger)
        for decision in self._ledger.promotions(run_id):
            task = self._ledger.task(decision.task_id)
            if not decision.is_promoted or task.device_id != self._device.id:
                continue  # a build is for one device
            if flaws.of(decision.candidate_id) is not None:
                continue
            confirmed = self._ledger.measurement(run_id, task.id, decision.candidate_id, MeasurementStage.CONFIRM)
            speedup = _required(confirmed, "confirmation").traffic_weighted_speedup
            won.append(
                WonKernel(
                    task_id=task.id,
                    candidate_id=decision.candidate_id,
                    module_paths=ranking.sites[task.id].module_paths,
                    level=task.level,
                    workloads=task.public_calls,
                    saved_share=shares[task.id] * (1.0 - 1.0 / speedup),
                )
            )
        return tuple(won)

    @activity.defn
    def conclude_run(self, ship: ShipInput) -> None:
        """Decides, approves if the user's setting says so, and writes the report that ends the run."""
        store = BuildStore(self._home)
        request = self._ledger.run_request(ship.run_id)
        report = report_run(self._ledger, ship.run_id, live_build=store.current())
        if request.approve_automatically:
            self._approve(ship.run_id, store, report)
            report = report_run(self._ledger, ship.run_id, live_build=store.current())
        self._ledger.end_run(report)

    def _approve(self, run_id: str, store: BuildStore, report: RunReport) -> None:
        """Makes the run's build live, or takes the live one back where its kernels are wrong and no build replaces it.

        Done once: what a person decided after it stays.
        """
        by = f"{AUTOMATIC}, {run_id}"
        own = [approval for approval in store.decisions() if approval.by == by]
        if own:  # killed before the ledger knew
            Approvals(self._ledger).put(own[-1])
            return
        build, figures, checks, flaws = report.build, report.end_to_end, report.live, Flaws(self._ledger)
        if build is not None and build.passed and figures is not None and not flaws.first_in(store.show(build.id)):
            if build.live:
                return
            try:
                Approvals(self._ledger).put(store.approve_in_place_of(figures.live_build, build.id, by))
            except LiveMoved as moved:
                self._tell(run_id, Stage.BUILD, f"the build waits for a person: {moved}")
        elif checks is not None and checks.wrong and store.current() == checks.build_id:
            Approvals(self._ledger).put(store.withdraw(by))
            self._tell(
                run_id, Stage.BUILD, "the live build has wrong kernels and no build replaces it: nothing is live"
            )

    def _tell(self, run_id: str, stage: Stage, message: str) -> None:
        self._ledger.add_progress(run_id, Progress(stage=stage, message=message))


class DeviceShipActivities:
    def __init__(self, ledger: Ledger, sandbox: Sandbox, home: Path, device: DeviceFingerprint) -> None:
        self._ledger, self._sandbox, self._home, self._device = ledger, sandbox, home, device

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None:
        """Measures the model with and without the run's build; without a build there is nothing to do."""
        build = self._ledger.build_of(ship.run_id)
        with Session(self._ledger.engine) as session:
            was_gated = found_in_run(session, ship.run_id) is not None
        if build is None or was_gated:
            return
        request = self._ledger.run_request(ship.run_id)
        ranking = _required(self._ledger.stage(ship.run_id, Stage.RANKING, Ranking), "ranking")
        replay = _required(self._ledger.stage(ship.run_id, Stage.REPLAY, ReplayRecord), "replay")
        self._tell(ship.run_id, "the model with and without the build")
        live = BuildStore(self._home).current()
        try:
            current = self._build_to_beat(ship.run_id, request.model, Path(build.path))
            figures = self._measure(request, ranking, replay, Path(build.path), current)
        except ServedProcessEnded as ended:
            if ended.name != PathName.BUILD:
                raise
            self._ledger.put_stage(ship.run_id, BUILD_FAILURE, BuildFailure(message=str(ended)))
            self._tell(ship.run_id, f"the model does not run with the build: {ended}")
            return
        self._ledger.put_stage(ship.run_id, Stage.END_TO_END, figures.model_copy(update={"live_build": live}))
        self._tell(
            ship.run_id,
            f"decode {figures.decode_speedup:.2f}x, prefill {figures.prefill_speedup:.2f}x of eager",
        )

    def _measure(
        self, request: RunRequest, ranking: Ranking, replay: ReplayRecord, build_folder: Path, current: Path | None
    ) -> EndToEnd:
        model = open_model(request.model, self._home)

        def measure(current: Path | None) -> EndToEnd:
            return measure_end_to_end(
                self._sandbox,
                ModelFiles(folder=model.folder(), tokenizer=model.tokenizer),
                build_folder,
                replay.steps,
                threads=ranking.threads,
                seconds=request.end_to_end_s,
                compile_seconds=request.compile_s,
                current=current,
            )

        with exclusive_slot():
            try:
                return measure(current)
            except ServedProcessEnded as ended:
                if ended.name != PathName.CURRENT:
                    raise
                figures = measure(None)
                return figures.model_copy(update={"notes": (*figures.notes, f"the live build does not run: {ended}")})

    def _build_to_beat(self, run_id: str, model: str, build_folder: Path) -> Path | None:
        """The live one of the model on this hardware, where there is another and nothing in it is wrong."""
        checks = self._ledger.stage(run_id, LIVE_CHECKS, LiveChecks)
        build = read_live(BuildStore(self._home), self._device)
        if build is None or build.id == build_folder.name or (checks is not None and checks.wrong):
            return None
        return build.path if build.manifest.model == model else None

    def _tell(self, run_id: str, message: str) -> None:
        self._ledger.add_progress(run_id, Progress(stage=Stage.END_TO_END, message=message))


def _required(found: T | None, what: str) -> T:
    if found is None:
        raise RuntimeError(f"the run has no {what}: an earlier activity did not record it")
    return found
