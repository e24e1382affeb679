"""Nightly runs of a made-up past: their stages, their searches, and the builds that they shipped."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from candidates.candidate import Candidate
from candidates.hot_ops import HotOp, HotWorkload
from candidates.ledger.blobs import BlobStore
from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from candidates.measurement import Baseline, Interval, Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.memory import lessons
from candidates.promotion import EndToEnd, PathName, decide_build, decide_promotion
from candidates.run import (
    BuildRecord,
    BuildReport,
    OpDecision,
    OpReport,
    Progress,
    Ranking,
    ReplayRecord,
    RunReport,
    RunRequest,
    SearchEnd,
    Stage,
)
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import InstallationSite, ranges_of_wins
from candidates.spending import ModelBudget
from candidates.task import KernelTask
from tests.leaderboard.browser.dialogue import put_transcript
from tests.leaderboard.browser.kernels import (
    MODEL,
    OPS,
    OpOfPast,
    accepted,
    cpu,
    decision_for,
    does_not_build,
    make_attempt,
    make_candidate,
    make_task,
    measure,
    shares_by_class,
    wrong_values,
)
from tests.leaderboard.browser.texts import Say, briefly, say_gates
from traces.replay.report import Distribution, ReplayReport, RequestCounts
from traces.replay.settings import EngineSettings
from traces.replay.step import EngineStep
from traces.sites import SiteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where what is made up goes."""

    ledger: Ledger
    blobs: BlobStore
    home: Path
    say: Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    op: OpOfPast
    task: KernelTask
    best: Candidate
    measurement: Measurement
    tried: int

    @property
    def has_won(self) -> bool:
        return self.measurement.traffic_weighted_speedup > 1.05


@dataclass(slots=True, kw_only=True)
class Night:
    """What came of one."""

    run_id: str
    build: Build | None = None
    searches: list[Searched] = field(default_factory=list)
    transcript_of: str = ""
    """A candidate that has one."""


def make_request(say: Say, number: int) -> RunRequest:
    return RunRequest(
        traces=(say("/var/traces/production-chat.jsonl"), say("/var/traces/coding.jsonl")),
        trace_digest=f"{number:064x}",
        trace_format=say("openai-log"),
        model=say(MODEL),
        agents=(say("search"), say("llm")),
        models=ModelBudget(endpoints=(say("opus"),), device_usd_per_hour=2.5),
    )


def put_night(
    place: Place, run_id: str, number: int, *, ops: Sequence[OpOfPast] = OPS, shipped: Sequence[str]
) -> Night:
    """A run that ended. `shipped`: names of ops whose winners go into its build."""
    ledger, say = place.ledger, place.say
    night = Night(run_id=run_id)
    ledger.open_run(make_request(say, number), run_id)
    for progress in first_progress(say):
        ledger.add_progress(run_id, progress)
    for op in ops:
        searched = _search(place, night, op, number)
        night.searches.append(searched)
        put_search_progress(ledger, run_id, op, say)
    won = [searched for searched in night.searches if searched.has_won and searched.op.name in shipped]
    night.build = write_night_build(place, won)
    figures = _end_to_end(night.build, say, speedup=1.31 if number == 1 else 1.48)
    build = BuildRecord(
        id=night.build.id, path=say(str(night.build.path)), task_ids=tuple(searched.task.id for searched in won)
    )
    ledger.put_stage(run_id, Stage.REPLAY, _replay())
    ledger.put_stage(run_id, Stage.RANKING, _ranking(night.searches, say))
    ledger.put_build(run_id, build)
    ledger.put_stage(run_id, Stage.END_TO_END, figures)
    for message in (f"build {build.id[:12]} with {len(won)} kernels",):
        ledger.add_progress(run_id, Progress(stage=Stage.BUILD, message=say(message)))
    ledger.add_progress(run_id, Progress(stage=Stage.END_TO_END, message=say("decode 1.56x, prefill 1.23x of eager")))
    ledger.end_run(make_report(night, figures, say))
    return night


def first_progress(say: Say) -> list[Progress]:
    return [
        Progress(stage=Stage.DEVICE, message=say("measuring what the device can do with 1 threads")),
        Progress(stage=Stage.REPLAY, message=say("538 of 538 requests, TTFT p50 1.44 s, TPOT p50 59 ms")),
        Progress(stage=Stage.RANKING, message=say("hot ops cover 73.9% of device time; hottest LlamaMLP.decode")),
    ]


def put_search_progress(ledger: Ledger, run_id: str, op: OpOfPast, say: Say) -> None:
    best = 0.0
    for tried, speedup in enumerate(op.speedups, start=1):
        best = max(best, speedup)
        message = say(f"screened at {speedup:.2f}x")
        progress = Progress(stage=Stage.SEARCH, op=say(op.name), tried=tried, best_speedup=best, message=message)
        ledger.add_progress(run_id, progress)


def _search(place: Place, night: Night, op: OpOfPast, number: int) -> Searched:
    ledger, say = place.ledger, place.say
    task = make_task(op, cpu(say), say)
    ledger.put_task(task)
    candidates = [make_candidate(op, each, say, night=number) for each in range(len(op.speedups))]
    attempts = []
    for each, (candidate, speedup) in enumerate(zip(candidates, op.speedups, strict=True)):
        ledger.put_candidate(candidate)
        is_written = each >= 2
        transcript = put_transcript(place.blobs, say, task, candidate) if is_written else None
        attempts.append(
            make_attempt(
                candidate,
                say,
                agent="llm" if is_written else "search",
                endpoint="opus" if is_written else None,
                parents=candidates[each - 1 : each] if is_written else (),
                note="Smaller row tiles, so that both panels of the weights stay in the first cache."
                if is_written
                else f"schedule with row_tile={(8, 4)[each]}",
                verdict=accepted(),
                measurement=measure(op, task, speedup, MeasurementStage.SCREEN),
                transcript=transcript,
                cost_usd=0.0412 if is_written else 0.0,
            )
        )
        if transcript is not None:
            night.transcript_of = night.transcript_of or candidate.id
    for verdict, note in ((wrong_values(task, say), "half the loads"), (does_not_build(say), "masked tail")):
        failed = make_candidate(op, 3 + len(attempts), say, night=10 * number + len(attempts))
        ledger.put_candidate(failed)
        attempts.append(make_attempt(failed, say, note=note, verdict=verdict, parents=candidates[:1]))
    for attempt in attempts:
        ledger.put_attempt(night.run_id, task.id, attempt)
    Cards(ledger).put(lessons(task, tuple(attempts)))
    best = candidates[op.speedups.index(max(op.speedups))]
    confirmed = _finals(ledger, night.run_id, op, task, candidates)
    promotion = decide_promotion(task.id, best.id, accepted(), confirmed)
    ledger.put_promotion(night.run_id, promotion.model_copy(update={"gates": say_gates(say, promotion.gates)}))
    decision = {"win": "won", "lose": "lost", "undecided": "undecided"}[decision_for(max(op.speedups))]
    end = SearchEnd(
        task_id=task.id,
        op=task.op,
        decision=decision,
        candidate_id=best.id,
        reason=say("budget: time is spent"),
        stop_reason=say("budget: time is spent"),
        tried=len(attempts),
    )
    ledger.put_search_end(night.run_id, end)
    return Searched(op=op, task=task, best=best, measurement=confirmed, tried=len(attempts))


def _finals(
    ledger: Ledger, run_id: str, op: OpOfPast, task: KernelTask, candidates: Sequence[Candidate]
) -> Measurement:
    """The confirmation of the best; the two best are raced."""
    best_first = sorted(zip(op.speedups, candidates, strict=True), key=lambda pair: -pair[0])
    for speedup, candidate in best_first[:2]:
        raced = measure(op, task, 0.99 * speedup, MeasurementStage.RACE)
        ledger.put_measurement(run_id, task.id, candidate.id, raced)
    confirmed = measure(op, task, best_first[0][0], MeasurementStage.CONFIRM)
    ledger.put_measurement(run_id, task.id, best_first[0][1].id, confirmed)
    return confirmed


def write_night_build(place: Place, won: Sequence[Searched]) -> Build:
    """Its libraries are no libraries: nothing here loads them."""
    say = place.say
    kernels = []
    for searched in won:
        artifact = f"library of {searched.best.id}".encode()
        place.ledger.put_artifact(searched.task.id, searched.best.id, place.blobs.put(artifact))
        kernels.append(
            ShippedKernel(
                task=searched.task,
                candidate=searched.best,
                artifact=artifact,
                site=_site_of(searched.op, say),
                measurement=searched.measurement,
                ranges=ranges_of_wins(searched.task, searched.measurement),
            )
        )
    return write_build(place.home, say(MODEL), cpu(say), kernels)


def _site_of(op: OpOfPast, say: Say) -> InstallationSite:
    paths = [part.replace("*", str(layer)) for part in op.site.split("|") for layer in range(30 if "*" in part else 1)]
    return InstallationSite(kind=SiteKind.MODULE, module_paths=tuple(map(say, paths)))


def _end_to_end(build: Build, say: Say, *, speedup: float) -> EndToEnd:
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


def _replay() -> ReplayRecord:
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


def _ranking(searches: Sequence[Searched], say: Say) -> Ranking:
    nested = say("it is called with cache=DynamicCache, use_cache=True, and a kernel takes tensors alone")
    return Ranking(
        coverage=0.739,
        threads=1,
        eager_decode_us_by_threads={1: 42_992.0, 2: 46_196.0},
        hot_ops=(
            HotOp(
                op=say("LlamaAttention.decode"),
                site=say("model.layers.*.self_attn"),
                level="block",
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
        sites={searched.task.id: _site_of(searched.op, say) for searched in searches},
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
        replay=_replay().report,
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
