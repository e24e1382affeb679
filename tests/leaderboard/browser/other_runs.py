"""Runs that are no nightly ones: a tune on a GPU, an exam of a language model."""

from candidates.exam import (
    FAST_P,
    ExamReport,
    ExamRequest,
    ExamTask,
    FastShare,
    MeanSpeedup,
    TaskResult,
    share_of,
)
from candidates.measurement import Baseline, Interval
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import decide_promotion
from candidates.run import (
    Progress,
    SearchEnd,
    Stage,
    TuneReport,
    TuneRequest,
)
from candidates.spending import ModelBudget
from tests.leaderboard.browser.past_kernels import (
    OPS,
    accepted,
    gpu,
    make_attempt,
    make_candidate,
    make_task,
    measure,
)
from tests.leaderboard.browser.past_times import HOUR, run_id_of
from tests.leaderboard.browser.searched import Night, Place
from tests.leaderboard.browser.texts import say_gates


def put_tune(place: Place) -> str:
    """A kernel for a GPU, which a language model wrote."""
    ledger, say, op, run_id = place.ledger, place.say, OPS[0], run_id_of("tune", 30 * HOUR, 6001)
    task = make_task(op, gpu(say), say)
    ledger.put_task(task)
    request = TuneRequest(
        task_id=task.id, op=task.op, agents=(say("llm"),), models=ModelBudget(endpoints=(say("fable"),))
    )
    ledger.open_run(request, run_id)
    for number, speedup in enumerate((1.12, 1.31)):
        candidate = make_candidate(op, number, say, night=7, language="triton")
        ledger.put_candidate(candidate)
        screened = measure(op, task, speedup, MeasurementStage.SCREEN)
        attempt = make_attempt(
            candidate,
            say,
            agent="llm",
            endpoint="fable",
            note="a first draft",
            verdict=accepted(),
            measurement=screened,
        )
        ledger.put_attempt(run_id, task.id, attempt)
        progress = Progress(
            stage=Stage.SEARCH, op=task.op, tried=number + 1, best_speedup=speedup, message=say("screened")
        )
        ledger.add_progress(run_id, progress)
    confirmed = measure(op, task, 1.31, MeasurementStage.CONFIRM)
    ledger.put_measurement(run_id, task.id, candidate.id, confirmed)
    promotion = decide_promotion(task.id, candidate.id, accepted(), confirmed)
    ledger.put_promotion(run_id, promotion.model_copy(update={"gates": say_gates(say, promotion.gates)}))
    end = SearchEnd(
        task_id=task.id,
        op=task.op,
        decision="won",
        candidate_id=candidate.id,
        reason=say("no_progress: three rounds without a faster kernel"),
        stop_reason=say("no_progress: three rounds without a faster kernel"),
        tried=2,
    )
    ledger.put_search_end(run_id, end)
    report = TuneReport(
        run_id=run_id,
        task=task.id,
        op=task.op,
        decision="won",
        candidate=candidate.id,
        best_baseline=Baseline.COMPILE,
        speedup_over_best=1.31,
        interval=Interval(1.27, 1.34),
        share_of_floor=0.61,
        tried=2,
        reason=end.reason,
        stop_reason=end.stop_reason,
        spend_usd=0.44,
        spend_tokens=91_200,
        budget_stops=(),
        wall_s=312.0,
    )
    ledger.end_run(report)
    return run_id


def put_exam(place: Place, night: Night) -> str:
    say, run_id = place.say, run_id_of("exam", 31 * HOUR, 1500)
    tasks = [searched.task for searched in night.searches[:3]]
    request = ExamRequest(
        endpoint=say("opus"),
        model=say("opus-4.8"),
        is_priced=True,
        tasks=tuple(ExamTask(task_id=task.id, op=task.op) for task in tasks),
        models=ModelBudget(endpoints=(say("opus"),)),
        search_s=120.0,
        attempts=6,
        last_stage=MeasurementStage.CONFIRM,
    )
    place.ledger.open_run(request, run_id)
    results = [
        TaskResult(
            task=task.id,
            op=task.op,
            decision="won",
            reason=say("budget: time is spent"),
            stop_reason=say("budget: time is spent"),
            samples=6,
            judged=5,
            accepted=4,
            candidate=None,
            speedup_over_best=1.4 + 0.3 * number,
            interval=Interval(1.3 + 0.3 * number, 1.5 + 0.3 * number),
            stage=MeasurementStage.CONFIRM,
            spend_usd=0.31,
            spend_tokens=60_100,
            model_s=88.0,
        )
        for number, task in enumerate(tasks)
    ]
    report = ExamReport(
        run_id=run_id,
        endpoint=say("opus"),
        model=say("opus-4.8"),
        tasks=tuple(results),
        tasks_correct=share_of(3, 3),
        samples_accepted=share_of(12, 18),
        fast_p=tuple(FastShare(p=p, share=share_of(3 if p < 1.4 else 2, 3)) for p in FAST_P),
        speedup=MeanSpeedup(speedup=1.68, interval=Interval(1.4, 2.0), tasks=3),
        stages={MeasurementStage.CONFIRM: 3},
        wins=3,
        usd_per_win=0.31,
        spend_usd=0.93,
        spend_tokens=180_300,
        model_s=264.0,
        wall_s=402.0,
        stop_reasons={say("budget"): 3},
        budget_stops=(),
    )
    place.ledger.end_run(report)
    return run_id
