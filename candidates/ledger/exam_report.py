"""report_exam: how well a model did in its exam, from the facts in the ledger."""

from collections import Counter

from candidates.agent import fastest_first
from candidates.exam import FAST_P, ExamReport, ExamRequest, FastShare, MeanSpeedup, TaskResult, share_of
from candidates.exam_statistics import bootstrap_interval, count_above, geometric_mean
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import ModelCalls
from candidates.ledger.run_report import measurement_of
from candidates.measurement import Stage
from candidates.run import SearchEnd
from candidates.spending import op_account, run_account
from candidates.verdict import Accepted


def report_exam(ledger: Ledger, run_id: str) -> ExamReport:
    """LedgerError: the search of one of its tasks has not ended."""
    request = ledger.exam_request(run_id)
    ends = {end.task_id: end for end in ledger.search_ends(run_id)}
    if missing := [task.op for task in request.tasks if task.task_id not in ends]:
        raise LedgerError(f"{run_id} has not ended: {', '.join(missing)} are to be searched")
    tasks = tuple(_result(ledger, run_id, request, ends[task.task_id]) for task in request.tasks)
    speedups = [task.speedup_over_best for task in tasks]
    known = [speedup for speedup in speedups if speedup is not None]
    calls = ModelCalls(ledger)
    spent = calls.used(run_account(run_id))
    usd = spent.usd if request.is_priced else None
    wins = None if request.last_stage is Stage.SCREEN else sum(task.decision == "won" for task in tasks)
    return ExamReport(
        run_id=run_id,
        endpoint=request.endpoint,
        model=request.model,
        tasks=tasks,
        tasks_correct=share_of(len(known), len(tasks)),
        samples_accepted=share_of(sum(task.accepted for task in tasks), sum(task.samples for task in tasks)),
        fast_p=tuple(FastShare(p=p, share=share_of(count_above(speedups, p), len(tasks))) for p in FAST_P),
        speedup=MeanSpeedup(speedup=geometric_mean(known), interval=bootstrap_interval(known), tasks=len(known))
        if known
        else None,
        stages=dict(Counter(task.stage for task in tasks if task.stage is not None)),
        wins=wins,
        usd_per_win=usd / wins if usd is not None and wins else None,
        spend_usd=usd,
        spend_tokens=spent.tokens,
        model_s=spent.milliseconds / 1000,
        wall_s=ledger.run_age_s(run_id),
        stop_reasons=dict(Counter(task.stop_reason.partition(":")[0] for task in tasks)),
        budget_stops=calls.stops(run_account(run_id)),
    )


def _result(ledger: Ledger, run_id: str, request: ExamRequest, end: SearchEnd) -> TaskResult:
    attempts = ledger.attempts(run_id, end.task_id)
    measurement = None
    if end.decision != "rejected":
        screened = [attempt.measurement for attempt in fastest_first(attempts)]
        measurement = measurement_of(ledger, run_id, end) or next(iter(screened), None)
    account, calls = op_account(run_id, end.task_id), ModelCalls(ledger)
    answered = [
        recorded.call.call_id
        for recorded in calls.calls(f"{account}/")
        if recorded.call.begins_sample and recorded.end is not None and recorded.end.answer is not None
    ]
    spent = calls.used(account)
    return TaskResult(
        task=end.task_id,
        op=end.op,
        decision=end.decision,
        reason=end.reason,
        stop_reason=end.stop_reason,
        samples=len(set(answered)),
        judged=len(attempts),
        accepted=sum(isinstance(attempt.verdict, Accepted) for attempt in attempts),
        candidate=end.candidate_id if measurement is not None else None,
        speedup_over_best=measurement.traffic_weighted_speedup if measurement is not None else None,
        interval=measurement.interval if measurement is not None else None,
        stage=measurement.stage if measurement is not None else None,
        spend_usd=spent.usd if request.is_priced else None,
        spend_tokens=spent.tokens,
        model_s=spent.milliseconds / 1000,
    )
