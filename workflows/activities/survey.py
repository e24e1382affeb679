"""Activities that find out what is worth the work: the device's ceilings, the traffic's steps, the hot ops."""

import functools
import hashlib
from collections.abc import Callable
from pathlib import Path

from temporalio import activity

from candidates.benchmark.exclusive import exclusive_slot
from candidates.ceilings import fingerprint_device, measure_ceilings
from candidates.device import DeviceCeilings
from candidates.device_model import calibrate, replay_on_device
from candidates.ledger.ledger import Ledger
from candidates.run import Progress, Ranking, ReplayRecord, RunRequest, Stage
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.counted_traffic import read_counted_traffic
from candidates.serving_build.counters import CountersUnreadable
from candidates.site_timing import use_threads
from candidates.survey import survey_hot_ops
from candidates.task import KernelTask
from traces.formats.read import read_trace
from traces.requests import TraceError
from traces.served_model import open_model
from workflows.payloads import RunInput, SearchInput, SearchPlan
from workflows.search_so_far import search_so_far


class DeviceError(Exception):
    """The run was begun on another device; the user must resume it there or begin a new one."""


class TrafficActivities:
    """What is computed from files alone."""

    def __init__(self, ledger: Ledger, home: Path) -> None:
        self._ledger, self._home = ledger, home

    @activity.defn
    def replay_traffic(self, run: RunInput) -> None:
        if self._ledger.stage(run.run_id, Stage.REPLAY, ReplayRecord) is not None:
            return
        request = self._ledger.run_request(run.run_id)
        record = self._replay(run, request)
        self._ledger.put_stage(run.run_id, Stage.REPLAY, record)
        report = record.report
        tpot = f", TPOT p50 {report.tpot_s.p50 * 1e3:.0f} ms" if report.tpot_s is not None else ""
        self._ledger.add_progress(
            run.run_id,
            Progress(
                stage=Stage.REPLAY,
                message=f"{report.requests.kept} of {report.requests.read} requests, {report.requests.truncated} cut "
                f"to the window, {len(record.steps)} kinds of steps cover {record.covered_share:.1%}; "
                f"TTFT p50 {report.ttft_s.p50:.2f} s{tpot}, {report.throughput_tokens_per_s:.1f} tokens/s, goodput "
                f"{report.goodput_tokens_per_s:.1f}, prefix hits {report.prefix_hit_rate:.0%}",
            ),
        )

    def _replay(self, run: RunInput, request: RunRequest) -> ReplayRecord:
        trace = read_trace([Path(path) for path in request.traces], request.trace_format, request.workload_class)
        if trace.digest != request.trace_digest:
            raise TraceError(f"{', '.join(request.traces)} changed since this run began: begin a new run")
        model = open_model(request.model, self._home)
        device_model = self._ledger.device_model(run.device_id, model.digest)
        if device_model is None:
            raise RuntimeError("the device was not measured before the replay")
        return replay_on_device(
            trace,
            model.shape,
            device_model,
            engine=request.engine,
            utilisation=request.utilisation,
            limit=request.request_limit,
        )


class SurveyActivities:
    """What is measured on the device."""

    def __init__(self, ledger: Ledger, home: Path, cache: Path) -> None:
        self._ledger, self._home, self._cache = ledger, home, cache

    @activity.defn
    def measure_device(self, run: RunInput) -> None:
        device = fingerprint_device()
        if device.id != run.device_id:
            raise DeviceError(f"{run.run_id} was begun on {run.device_id}, this is {device.id}: begin a new run")
        request = self._ledger.run_request(run.run_id)
        ceilings = self._ceilings(run, threads=1)
        model = open_model(request.model, self._home)
        if self._ledger.device_model(device.id, model.digest) is None:
            self._tell(run, Stage.DEVICE, f"timing {model.name} on {device.model}")
            module = model.load()
            with exclusive_slot(), use_threads(1):
                calibrated = calibrate(model.shape, module, ceilings)
            self._ledger.put_device_model(device.id, model.digest, calibrated)
        memory_rate = ceilings.read[-1].bytes_per_s
        self._tell(
            run,
            Stage.DEVICE,
            f"{device.model}: {memory_rate / 1e9:.1f} GB/s from memory, "
            f"{ceilings.flops_per_s['float32'] / 1e9:.0f} GFLOP/s, dispatch {ceilings.dispatch_us:.1f} us",
        )

    @activity.defn
    def rank_hot_ops(self, run: RunInput) -> SearchPlan:
        request = self._ledger.run_request(run.run_id)
        ranking = self._ledger.stage(run.run_id, Stage.RANKING, Ranking)
        if ranking is None:
            ranking = self._rank(run, request)
            self._ledger.put_stage(run.run_id, Stage.RANKING, ranking)
        return plan_searches(self._ledger, run, request, ranking)

    def _rank(self, run: RunInput, request: RunRequest) -> Ranking:
        replay = self._ledger.stage(run.run_id, Stage.REPLAY, ReplayRecord)
        if replay is None:
            raise RuntimeError("hot ops were asked for before the replay")
        self._tell(run, Stage.RANKING, "capturing the shapes of every op site")
        served = open_model(request.model, self._home)
        return survey_hot_ops(
            served,
            replay,
            device_id=run.device_id,
            architectures=request.architectures,
            gpu=request.gpu,
            keep=request.workloads_per_op,
            ceilings_of=functools.partial(self._ceilings, run),
            put_task=self._ledger.put_task,
            recount=self._recount(request),
            tell=functools.partial(self._tell, run, Stage.RANKING),
        )

    def _recount(self, request: RunRequest) -> Callable[[KernelTask], KernelTask]:
        if request.counters is None:
            return lambda task: task
        counters = Path(request.counters)
        traffic = read_counted_traffic(counters, BuildStore(self._home))
        if hashlib.sha256(counters.read_bytes()).hexdigest() != request.counters_digest:
            raise CountersUnreadable(f"{counters} is not what it was when the run began: give a copy that stays")
        return traffic.applied_to

    def _ceilings(self, run: RunInput, threads: int) -> DeviceCeilings:
        known = self._ledger.ceilings(run.device_id, threads)
        if known is None:
            self._tell(run, Stage.DEVICE, f"measuring what the device can do with {threads} threads")
            with exclusive_slot():
                known = measure_ceilings(fingerprint_device(), threads, self._cache)
            self._ledger.put_ceilings(known)
        return known

    def _tell(self, run: RunInput, stage: Stage, message: str) -> None:
        self._ledger.add_progress(run.run_id, Progress(stage=stage, message=message))


def plan_searches(ledger: Ledger, run: RunInput, request: RunRequest, ranking: Ranking) -> SearchPlan:
    return SearchPlan(
        searches=tuple(
            SearchInput(
                run_id=run.run_id,
                device_id=request.gpu or run.device_id,
                task_id=hot_op.task_id,
                op=hot_op.op,
                agents=request.agents,
                models=request.models.for_op(hot_op.recoverable_share),
                seconds=request.search_s / request.hot_ops,
                attempts=request.attempts_per_op,
                so_far=search_so_far(ledger, run.run_id, hot_op.task_id, request.agents),
            )
            for hot_op in ranking.hot_ops
            if hot_op.task_id is not None
        ),
        limit=request.hot_ops,
    )
