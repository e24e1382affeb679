"""What the stages of a nightly run record, and its report."""

from collections.abc import Mapping, Sequence

from candidates.hot_ops import HotOp, HotWorkload
from candidates.measurement import Baseline, Interval, Measurement
from candidates.promotion import EndToEnd, PathName, decide_build
from candidates.run import (
    BuildReport,
    OpDecision,
    OpReport,
    Ranking,
    ReplayRecord,
    RunReport,
)
from candidates.serving_build.build import Build
from candidates.serving_build.manifest import InstallationSite
from candidates.task import SiteLevel
from tests.leaderboard.browser.past_kernels import (
    OpOfPast,
    shares_by_class,
)
from tests.leaderboard.browser.searched import Night, Searched
from tests.leaderboard.browser.texts import Say, briefly, say_gates
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.settings import EngineSettings
from traces.replay.step import EngineStep
from traces.sites import SiteKind


def end_to_end_of(build: Build, say: Say, *, speedup: float) -> EndToEnd:
    rates = {PathName.EAGER: 18.9, PathName.COMPILE: 20.1, PathName.BUILD: 18.9 * speedup}
    kernels = [entry.id for entry in build.manifest.kernels]
    return EndToEnd(
        build_id=build.id,
        threads=1,
        decode_tokens_per_s=rates,
        prefill_tokens_per_s={name: 8 * rate for name, rate in rates.items()},
        ttft_s={name: 50 / rate for name, rate in rates.items()},
        speedup=speedup,
        speedup_interval=Interval(0.93 * speedup, 1.06 * speedup),
        decode_speedup=1.05 * speedup,
        decode_speedup_interval=Interval(1.02 * speedup, 1.09 * speedup),
        prefill_speedup=0.85 * speedup,
        prefill_speedup_interval=Interval(0.78 * speedup, 1.0 * speedup),
        peak_memory_bytes={PathName.EAGER: 1_348_497_408, PathName.BUILD: 2_185_814_016},
        kl_divergence=1.3e-11,
        kl_of_long=7.9e-12,
        kl_noise=1.4e-11,
        logprob_drift=5.7e-7,
        logit_noise=4.4e-5,
        row_split_difference=0.0,
        positions=2000,
        greedy_agreement=1.0,
        greedy_positions=2000,
        hits={kernel: 10260 * (number + 1) for number, kernel in enumerate(kernels)},
        misses={kernel: 390 * number for number, kernel in enumerate(kernels)},
        notes=(say("prefill of 512 tokens at context 2970 measured at 64"),),
        wall_s=195.6,
    )


def make_replay() -> ReplayRecord:
    report = ReplayReport(
        engine=EngineSettings(name="sglang", max_batched_tokens=512, max_sequences=16, kv_capacity_tokens=137_133),
        max_context_tokens=8192,
        requests=RequestCounts(read=538, kept=538, dropped={}, truncated=0),
        prefix_hit_rate=0.825,
        has_prefix_identity=True,
        ttft_s=Distribution(mean=2.59, p50=1.44, p90=6.36, p99=16.1),
        tpot_s=Distribution(mean=0.097, p50=0.059, p90=0.183, p99=0.619),
        latency_s=Distribution(mean=16.5, p50=10.5, p90=36.8, p99=77.3),
        throughput_tokens_per_s=32.6,
        goodput_tokens_per_s=21.0,
        preemptions=0,
        steps=41_739,
        distinct_steps=69,
        wall_s=0.042,
        utilisation=0.798,
        arrival_scale=0.913,
        span_s=3189.5,
    )
    step = EngineStep(
        prefill_tokens=0,
        prefill_context=0,
        decode_batch=4,
        decode_context=512,
        count=6151.0,
        duration_s=237.0,
        share_by_class={"chat": 0.8, "coding": 0.2},
    )
    return ReplayRecord(report=report, steps=(step,), span_s=3189.5, covered_share=0.99)


def make_ranking(searches: Sequence[Searched], say: Say) -> Ranking:
    nested = say("it is called with cache=DynamicCache, use_cache=True, and a kernel takes tensors alone")
    return Ranking(
        coverage=0.739,
        threads=1,
        eager_decode_us_by_threads={1: 42_992.0, 2: 46_196.0},
        hot_ops=(
            HotOp(
                op=say("LlamaAttention.decode"),
                site=say("model.layers.*.self_attn"),
                level=SiteLevel.BLOCK,
                task_id=None,
                obstacle=nested,
                share_of_time=0.388,
                share_by_class={briefly(say, "chat"): 0.403, briefly(say, "coding"): 0.349},
                time_us=1220.0,
                floor_us=160.0,
                recoverable_share=0.33,
                workloads=(),
            ),
            *(_hot_op(searched, say) for searched in searches),
        ),
        sites={searched.task.id: site_of(searched.op, say) for searched in searches},
        rank_correlation={f"{briefly(say, 'chat')}~{briefly(say, 'coding')}": 0.929},
        unmatched={say("a shape that no task has"): 17},
    )


def _hot_op(searched: Searched, say: Say) -> HotOp:
    op = searched.op
    return HotOp(
        op=searched.task.op,
        site=searched.task.site,
        level=searched.task.level,
        task_id=searched.task.id,
        share_of_time=op.share_of_time,
        share_by_class=dict(shares_by_class(op, say)),
        time_us=op.eager_us,
        floor_us=0.19 * op.eager_us,
        recoverable_share=0.81 * op.share_of_time,
        workloads=tuple(
            HotWorkload(
                shape=workload.name,
                dtype=say("float32"),
                calls_per_hour=workload.calls_per_hour,
                time_us=op.eager_us,
                floor_us=0.19 * op.eager_us,
            )
            for workload in searched.task.public_workloads
        ),
    )


def make_report(night: Night, figures: EndToEnd, say: Say) -> RunReport:
    assert night.build is not None
    gates = say_gates(say, decide_build(figures))
    shipped = {entry.id for entry in night.build.manifest.kernels}
    hot_ops = tuple(_op_report(searched, shipped, say) for searched in night.searches)
    no_program = hot_ops[0].model_copy(
        update={
            "op": say("LlamaAttention.decode"),
            "site": say("model.layers.*.self_attn"),
            "candidate": None,
            "share_of_time": 0.388,
            "share_by_class": {briefly(say, "chat"): 0.403, briefly(say, "coding"): 0.349},
            "best_baseline": None,
            "speedup_over_best": None,
            "interval": None,
            "share_of_floor": None,
            "decision": OpDecision.NO_PROGRAM,
            "reason": say("it is called with cache=DynamicCache, and a kernel takes tensors alone"),
            "stop_reason": None,
        }
    )
    return RunReport(
        run_id=night.run_id,
        replay=make_replay().report,
        coverage=0.739,
        rank_correlation={f"{briefly(say, 'chat')}~{briefly(say, 'coding')}": 0.929},
        hot_ops=(no_program, *hot_ops),
        build=BuildReport(
            id=night.build.id, path=say(str(night.build.path)), kernels=len(shipped), live=False, gates=gates
        ),
        end_to_end=figures,
        spend_usd=1.37,
        spend_tokens=812_345,
        wall_s=390.4,
    )


def _op_report(searched: Searched, shipped: set[str], say: Say) -> OpReport:
    measurement: Measurement = searched.measurement
    decisions: Mapping[str, OpDecision] = {"lose": OpDecision.LOST, "undecided": OpDecision.UNDECIDED}
    won = OpDecision.SHIPPED if searched.best.id in shipped else OpDecision.WON_NOT_SHIPPED
    return OpReport(
        op=searched.task.op,
        site=searched.task.site,
        level=searched.task.level,
        candidate=searched.best.id,
        share_of_time=searched.op.share_of_time,
        share_by_class=dict(shares_by_class(searched.op, say)),
        best_baseline=Baseline.EAGER,
        speedup_over_best=measurement.traffic_weighted_speedup,
        interval=measurement.interval,
        share_of_floor=0.5,
        decision=decisions.get(measurement.decision, won),
        reason=say("budget: time is spent"),
        stop_reason=say("budget: time is spent"),
    )


def site_of(op: OpOfPast, say: Say) -> InstallationSite:
    paths = [part.replace("*", str(layer)) for part in op.site.split("|") for layer in range(30 if "*" in part else 1)]
    return InstallationSite(kind=SiteKind.MODULE, module_paths=tuple(map(say, paths)))
