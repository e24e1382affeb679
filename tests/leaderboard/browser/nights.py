"""put_night: a nightly run of a made-up past, with its searches and the build that it shipped."""

from collections.abc import Mapping, Sequence

from candidates.candidate import Candidate
from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from candidates.measurement import Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.memory import lessons
from candidates.promotion import decide_promotion
from candidates.run import (
    BuildRecord,
    Progress,
    RunRequest,
    SearchDecision,
    SearchEnd,
    Stage,
)
from candidates.serving_build.build import Build, ShippedKernel, write_build
from candidates.serving_build.manifest import ranges_of_wins
from candidates.spending import ModelBudget
from candidates.task import KernelTask
from tests.leaderboard.browser.dialogue import put_transcript
from tests.leaderboard.browser.night_reports import end_to_end_of, make_ranking, make_replay, make_report, site_of
from tests.leaderboard.browser.past_kernels import (
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
    wrong_values,
)
from tests.leaderboard.browser.searched import Night, Place, Searched
from tests.leaderboard.browser.texts import Say, say_gates


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
    figures = end_to_end_of(night.build, say, speedup=1.31 if number == 1 else 1.48)
    build = BuildRecord(
        id=night.build.id, path=say(str(night.build.path)), task_ids=tuple(searched.task.id for searched in won)
    )
    ledger.put_stage(run_id, Stage.REPLAY, make_replay())
    ledger.put_stage(run_id, Stage.RANKING, make_ranking(night.searches, say))
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
    words: Mapping[str, SearchDecision] = {"win": "won", "lose": "lost", "undecided": "undecided"}
    end = SearchEnd(
        task_id=task.id,
        op=task.op,
        decision=words[decision_for(max(op.speedups))],
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
                site=site_of(searched.op, say),
                measurement=searched.measurement,
                ranges=ranges_of_wins(searched.task, searched.measurement),
            )
        )
    return write_build(place.home, say(MODEL), cpu(say), kernels)
