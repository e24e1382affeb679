"""What the runs of a made-up past asked for, said meanwhile and came to."""

import random
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.leaderboard_records import CLASSES, Kernel, decide
from candidates.hot_ops import HotOp, HotWorkload
from candidates.measurement import Baseline, Decision, Interval
from candidates.promotion import EndToEnd, Gate, PathName, PromotionDecision, decide_build
from candidates.run import (
    BuildReport,
    OpDecision,
    OpReport,
    Progress,
    Ranking,
    ReplayRecord,
    RunReport,
    RunRequest,
    SearchDecision,
    SearchEnd,
    Stage,
)
from candidates.serving_build.manifest import InstallationSite
from candidates.task import KernelTask
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.settings import EngineSettings
from traces.replay.step import EngineStep
from traces.sites import SiteKind

_DECISIONS: dict[Decision, SearchDecision] = {
    Decision.WIN: "won",
    Decision.UNDECIDED: "undecided",
    Decision.LOSE: "lost",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPast:
    """One search of a run, and what was known of its best candidate."""

    task: KernelTask
    best: Kernel | None
    share_of_time: float
    tried: int

    @property
    def decision(self) -> SearchDecision:
        if self.best is None:
            return "rejected"
        return _DECISIONS[decide(self.best.speedup)]


def make_request(model: str, number: int) -> RunRequest:
    return RunRequest(
        traces=("/var/traces/production.jsonl",),
        trace_digest=f"{number:064x}",
        model=model,
        agents=("search", "llm"),
        approve_automatically=False,
    )


def make_progress(ops: Sequence[str], lines: int, chance: random.Random) -> list[Progress]:
    said = []
    for number in range(lines):
        op = ops[number * len(ops) // lines]
        best = 0.8 + chance.random()
        message = f"{op}: {number} tried, the best so far is {best:.2f}x its best baseline"
        said.append(Progress(stage=Stage.SEARCH, op=op, tried=number, best_speedup=best, message=message))
    return said


def make_search_end(search: SearchPast) -> SearchEnd:
    return SearchEnd(
        task_id=search.task.id,
        op=search.task.op,
        decision=search.decision,
        candidate_id=None if search.best is None else search.best.id,
        reason="budget: time is spent",
        stop_reason="budget: time is spent",
        tried=search.tried,
    )


def make_promotion(search: SearchPast, kernel: Kernel) -> PromotionDecision:
    won = search.decision == "won"
    gates = (
        Gate(name="judged correct on the device", figure="accepted", bound="accepted, native", passed=True),
        Gate(
            name="confirmed win over the best baseline",
            figure=kernel.speedup,
            bound="> 1.03 in every fresh process",
            passed=won,
        ),
        Gate(name="no protected workload shown slower", figure=0.99, bound="no workload shown below 0.99", passed=won),
    )
    return PromotionDecision(task_id=search.task.id, candidate_id=kernel.id, gates=gates)


def make_ranking(searches: Sequence[SearchPast]) -> Ranking:
    """Of twenty sites as many as are searched have tasks."""
    hot_ops = [_hot_op(search) for search in searches]
    for number in range(20 - len(searches)):
        nested = {"op": f"DecoderLayer{number}.decode", "site": f"model.layers.*.{number}", "task_id": None}
        obstacle = "it is called with cache=DynamicCache, use_cache=True, and a kernel takes tensors alone"
        hot_ops.append(hot_ops[0].model_copy(update={**nested, "obstacle": obstacle}))
    paths = tuple(f"model.layers.{layer}.mlp" for layer in range(30))
    return Ranking(
        coverage=0.74,
        threads=1,
        eager_decode_us_by_threads={1: 42_992.2, 2: 46_195.9},
        hot_ops=tuple(hot_ops),
        sites={search.task.id: InstallationSite(kind=SiteKind.MODULE, module_paths=paths) for search in searches},
        rank_correlation={"chat~coding": 0.93},
        unmatched={},
    )


def _hot_op(search: SearchPast) -> HotOp:
    workloads = tuple(
        HotWorkload(
            shape=workload.name,
            dtype="float32",
            calls_per_hour=workload.calls_per_hour,
            time_us=610.0,
            floor_us=120.0,
        )
        for workload in search.task.public_workloads
    )
    share = search.share_of_time
    return HotOp(
        op=search.task.op,
        site=search.task.site,
        level=search.task.level,
        task_id=search.task.id,
        share_of_time=share,
        share_by_class={name: share * (0.8 + 0.2 * number) for number, name in enumerate(CLASSES)},
        time_us=610.0,
        floor_us=120.0,
        recoverable_share=share * 0.8,
        workloads=workloads,
    )


def make_end_to_end(build_id: str, speedup: float, kernels: Sequence[str]) -> EndToEnd:
    interval = Interval(speedup * 0.96, speedup * 1.04)
    rates = {PathName.EAGER: 18.9, PathName.COMPILE: 20.1, PathName.BUILD: 18.9 * speedup}
    return EndToEnd(
        build_id=build_id,
        threads=1,
        decode_tokens_per_s=rates,
        prefill_tokens_per_s={name: 8 * rate for name, rate in rates.items()},
        ttft_s={name: 50 / rate for name, rate in rates.items()},
        speedup=speedup,
        speedup_interval=interval,
        decode_speedup=speedup,
        decode_speedup_interval=interval,
        prefill_speedup=speedup,
        prefill_speedup_interval=interval,
        peak_memory_bytes={PathName.EAGER: 1_200_000_000, PathName.BUILD: 1_500_000_000},
        kl_divergence=2e-9,
        kl_of_long=2e-9,
        kl_noise=1e-9,
        logprob_drift=1e-6,
        logit_noise=1e-4,
        row_split_difference=1e-5,
        positions=2048,
        greedy_agreement=1.0,
        greedy_positions=2000,
        hits=dict.fromkeys(kernels, 34_210),
        misses=dict.fromkeys(kernels, 120),
        wall_s=75.0,
    )


def make_replay(chance: random.Random) -> ReplayRecord:
    spread = Distribution(mean=2.5, p50=1.4, p90=6.3, p99=16.1)
    report = ReplayReport(
        engine=EngineSettings(name="sglang", max_batched_tokens=512, max_sequences=16, kv_capacity_tokens=137_133),
        max_context_tokens=8192,
        requests=RequestCounts(read=538, kept=538, dropped={}, truncated=0),
        prefix_hit_rate=0.82,
        has_prefix_identity=True,
        ttft_s=spread,
        tpot_s=spread,
        latency_s=spread,
        throughput_tokens_per_s=32.6,
        goodput_tokens_per_s=20.9,
        preemptions=0,
        steps=41_739,
        distinct_steps=48,
        wall_s=0.04,
        utilisation=0.5 + 0.4 * chance.random(),
        arrival_scale=1.0,
        span_s=3189.5,
    )
    steps = tuple(
        EngineStep(
            prefill_tokens=0,
            prefill_context=0,
            decode_batch=1 + number % 16,
            decode_context=64 * (number + 1),
            count=6151.0,
            duration_s=237.0,
            share_by_class={name: 1 / len(CLASSES) for name in CLASSES},
        )
        for number in range(48)
    )
    return ReplayRecord(report=report, steps=steps, span_s=3189.5, covered_share=0.99)


def make_report(
    run_id: str, replay: ReplayRecord, ranking: Ranking, searches: Sequence[SearchPast], end_to_end: EndToEnd | None
) -> RunReport:
    """`end_to_end` None: nothing won, and no build was made."""
    by_task = {search.task.id: search for search in searches}
    build = None
    if end_to_end is not None:
        build = BuildReport(
            id=end_to_end.build_id,
            path=f"/var/builds/{end_to_end.build_id}",
            kernels=len(end_to_end.hits),
            live=False,
            gates=decide_build(end_to_end),
        )
    return RunReport(
        run_id=run_id,
        replay=replay.report,
        coverage=ranking.coverage,
        rank_correlation=ranking.rank_correlation,
        hot_ops=tuple(_op_report(hot_op, by_task.get(hot_op.task_id or ""), build) for hot_op in ranking.hot_ops),
        build=build,
        end_to_end=end_to_end,
        spend_usd=1.37,
        spend_tokens=812_345,
        wall_s=672.9,
    )


def _op_report(hot_op: HotOp, search: SearchPast | None, build: BuildReport | None) -> OpReport:
    best = None if search is None else search.best
    if search is None:
        decision = OpDecision.NO_PROGRAM
    elif search.decision == "won":
        decision = OpDecision.SHIPPED if build is not None and build.passed else OpDecision.WON_NOT_SHIPPED
    else:
        decision = OpDecision(search.decision)
    return OpReport(
        op=hot_op.op,
        site=hot_op.site,
        level=hot_op.level,
        candidate=None if best is None else best.id,
        share_of_time=hot_op.share_of_time,
        share_by_class=hot_op.share_by_class,
        best_baseline=None if best is None else Baseline.EAGER_OUT,
        speedup_over_best=None if best is None else best.speedup,
        interval=None if best is None else Interval(best.speedup * 0.97, best.speedup * 1.03),
        share_of_floor=None if best is None else 0.5,
        decision=decision,
        reason=hot_op.obstacle or "budget: time is spent",
        stop_reason=None if search is None else "budget: time is spent",
    )
