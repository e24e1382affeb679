"""Runs that ended with a build that passed its gates, in a real ledger and a real build store; nothing is run."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from candidates.agent import Attempt
from candidates.candidate import Candidate, Proposal
from candidates.hot_ops import HotOp, HotWorkload
from candidates.ledger.ledger import Ledger
from candidates.measurement import Baseline, Decision, Interval, Measurement, Stage, WorkloadMeasurement
from candidates.promotion import EndToEnd, PromotionDecision, decide_promotion
from candidates.run import BuildRecord, Ranking, ReplayRecord, RunRequest
from candidates.run import Stage as RunStage
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.manifest import InstallationSite, ranges_of_wins
from candidates.task import KernelTask
from candidates.verdict import Accepted, EvidenceKind
from tests.candidates.serving_build.conftest import local_device
from tests.judge_tasks import INCLUDES, LINEAR, RMSNORM
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.settings import EngineSettings
from traces.sites import SiteKind

RMSNORM_SOURCE = (
    INCLUDES
    + """
extern "C" void kernel(const float* x, const float* weight, float* y, int64_t rows) {
  for (int64_t r = 0; r < rows; ++r) {
    double sum = 0;
    for (int i = 0; i < 576; ++i) sum += double(x[r * 576 + i]) * x[r * 576 + i];
    const float scale = 1.0 / std::sqrt(sum / 576 + 1e-5);
    for (int i = 0; i < 576; ++i) y[r * 576 + i] = x[r * 576 + i] * scale * weight[i];
  }
}
"""
)
LINEAR_SOURCE = (
    INCLUDES
    + """
extern "C" int64_t pack_bytes() { return 48 * 64 * sizeof(float); }
extern "C" void pack(const float* weight, void* prepared) {
  float* transposed = static_cast<float*>(prepared);
  for (int o = 0; o < 48; ++o) for (int i = 0; i < 64; ++i) transposed[i * 48 + o] = weight[o * 64 + i];
}
extern "C" void kernel(const float* x, const float* weight, float* y, const void* prepared, int64_t rows) {
  const float* transposed = static_cast<const float*>(prepared);
  for (int64_t r = 0; r < rows; ++r)
    for (int o = 0; o < 48; ++o) {
      double sum = 0;
      for (int i = 0; i < 64; ++i) sum += double(x[r * 64 + i]) * transposed[i * 48 + o];
      y[r * 48 + o] = sum;
    }
}
"""
)


@dataclass(frozen=True, kw_only=True)
class Kernel:
    task: KernelTask = RMSNORM
    source: str = RMSNORM_SOURCE
    speedup: float = 1.5
    share: float = 0.2
    note: str = "rows are summed in one pass"
    changes: dict[str, object] = field(default_factory=dict)
    """Of the task, such as its op."""
    candidate: dict[str, object] = field(default_factory=dict)


PACKED_LINEAR = Kernel(task=LINEAR, source=LINEAR_SOURCE, candidate={"prepare": "pack"}, share=0.4, speedup=2.0)


class PastRuns:
    def __init__(self, home: Path) -> None:
        self.home = home
        self.ledger = Ledger(f"sqlite:///{home / 'ledger.sqlite'}")
        self.builds = BuildStore(home)
        self.device = local_device()
        self.ledger.put_device(self.device)

    def add(
        self,
        run_id: str,
        *kernels: Kernel,
        passes: bool = True,
        decide: Callable[[PromotionDecision], PromotionDecision] = lambda decision: decision,
    ) -> str:
        """The id of its build. `decide` gives what is recorded in place of a decision."""
        ledger, device = self.ledger, self.device
        request = RunRequest(traces=(f"/{run_id}.jsonl",), trace_digest="ab" * 32, model="tiny-llama")
        ledger.open_run(request, run_id)
        shipped, hot_ops, sites = [], [], {}
        for kernel in kernels:
            task = kernel.task.model_copy(update={"device_id": device.id, **kernel.changes})
            candidate = Candidate.model_validate({"language": "cpp", "source": kernel.source, **kernel.candidate})
            measured = _confirmation(task, kernel.speedup)
            verdict = Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=9, worst_error_in_bounds=0.4)
            proposal = Proposal(candidate=candidate, agent="search", note=kernel.note)
            site = InstallationSite(kind=SiteKind.MODULE, module_paths=("model.norm",))
            ledger.put_task(task)
            ledger.put_candidate(candidate)
            ledger.put_attempt(run_id, task.id, Attempt(proposal=proposal, verdict=verdict, measurement=measured))
            ledger.put_measurement(run_id, task.id, candidate.id, measured)
            ledger.put_promotion(run_id, decide(decide_promotion(task.id, candidate.id, verdict, measured)))
            hot_ops.append(_hot_op(task, kernel.share))
            sites[task.id] = site
            shipped.append(
                ShippedKernel(
                    task=task,
                    candidate=candidate,
                    artifact=b"\x7fELF" + candidate.id.encode(),
                    site=site,
                    measurement=measured,
                    ranges=ranges_of_wins(task, measured),
                )
            )
        ledger.put_stage(run_id, RunStage.REPLAY, _replay())
        ledger.put_stage(
            run_id,
            RunStage.RANKING,
            Ranking(
                coverage=0.9,
                threads=1,
                eager_decode_us_by_threads={1: 10.0},
                hot_ops=tuple(hot_ops),
                sites=sites,
                rank_correlation={},
                unmatched={},
            ),
        )
        if not shipped:
            return ""
        build = write_build(self.home, request.model, device, shipped)
        task_ids = tuple(each.task.id for each in shipped)
        ledger.put_build(run_id, BuildRecord(id=build.id, path=str(build.path), task_ids=task_ids))
        hits = {each.candidate.id: 10 for each in shipped}
        ledger.put_stage(run_id, RunStage.END_TO_END, _end_to_end(build.id, hits, 1.2 if passes else 0.9))
        return build.id


def _confirmation(task: KernelTask, speedup: float) -> Measurement:
    interval = Interval(speedup * 0.98, speedup * 1.02)
    return Measurement(
        stage=Stage.CONFIRM,
        device_id=task.device_id,
        threads=task.threads,
        workloads=tuple(
            WorkloadMeasurement(
                workload=workload.name,
                candidate_us=10 / speedup,
                kernel_only_us=9 / speedup,
                baselines_us={Baseline.EAGER: 12.0, Baseline.COMPILE: 10.0},
                best_baseline=Baseline.COMPILE,
                speedup_over_best=speedup,
                interval=interval,
                pairs=77,
                share_of_floor=0.5,
                parameters_are_cold=False,
                decision=Decision.WIN,
            )
            for workload in task.public_workloads
        ),
        traffic_weighted_speedup=speedup,
        interval=interval,
        decision=Decision.WIN,
        wall_s=1.0,
    )


def _hot_op(task: KernelTask, share: float) -> HotOp:
    return HotOp(
        op=task.op,
        site=task.site,
        level=task.level,
        task_id=task.id,
        share_of_time=share,
        share_by_class={"chat": share},
        time_us=10.0,
        floor_us=1.0,
        recoverable_share=share * 0.9,
        workloads=tuple(
            HotWorkload(shape=each.name, dtype="float32", calls_per_hour=60.0, time_us=10.0, floor_us=1.0)
            for each in task.public_workloads
        ),
    )


def _replay() -> ReplayRecord:
    spread = Distribution(mean=0.1, p50=0.1, p90=0.1, p99=0.1)
    report = ReplayReport(
        engine=EngineSettings(kv_capacity_tokens=1000),
        max_context_tokens=1000,
        requests=RequestCounts(read=1, kept=1, dropped={}, truncated=0),
        prefix_hit_rate=0.0,
        has_prefix_identity=True,
        ttft_s=spread,
        tpot_s=spread,
        latency_s=spread,
        throughput_tokens_per_s=1.0,
        goodput_tokens_per_s=1.0,
        preemptions=0,
        steps=1,
        distinct_steps=1,
        wall_s=0.1,
        utilisation=0.8,
        arrival_scale=1.0,
        span_s=1.0,
    )
    return ReplayRecord(report=report, steps=(), span_s=1.0, covered_share=1.0)


def _end_to_end(build_id: str, hits: dict[str, int], speedup: float) -> EndToEnd:
    interval = Interval(speedup * 0.99, speedup * 1.01)
    return EndToEnd(
        build_id=build_id,
        threads=1,
        decode_tokens_per_s={"eager": 10.0, "build": 10.0 * speedup},
        prefill_tokens_per_s={},
        ttft_s={},
        speedup=speedup,
        speedup_interval=interval,
        decode_speedup=speedup,
        decode_speedup_interval=interval,
        prefill_speedup=1.0,
        prefill_speedup_interval=Interval(0.99, 1.01),
        peak_memory_bytes={"eager": 100, "build": 110},
        kl_divergence=1e-9,
        kl_of_long=1e-9,
        kl_noise=0.0,
        logprob_drift=0.0,
        logit_noise=0.0,
        row_split_difference=0.0,
        positions=2000,
        greedy_agreement=1.0,
        greedy_positions=1990,
        hits=hits,
        misses={},
        wall_s=1.0,
    )
