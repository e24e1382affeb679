"""report_run, report_tune: what a run came to, from the facts in the ledger."""

from sqlalchemy.orm import Session

from candidates.device import kind_of_device
from candidates.hot_ops import HotOp
from candidates.ledger.flaws import Flaws
from candidates.ledger.gates import found_in_run
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.model_calls import ModelCalls
from candidates.measurement import Measurement
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import Gate
from candidates.run import (
    LIVE_CHECKS,
    BuildRecord,
    BuildReport,
    LiveChecks,
    OpDecision,
    OpReport,
    Ranking,
    ReplayRecord,
    RunReport,
    SearchEnd,
    Stage,
    TuneReport,
)
from candidates.spending import run_account


def report_run(ledger: Ledger, run_id: str, live_build: str | None) -> RunReport:
    """`live_build`: id of the build that serves now. LedgerError: the run has no ranking yet."""
    ranking = ledger.stage(run_id, Stage.RANKING, Ranking)
    replay = ledger.stage(run_id, Stage.REPLAY, ReplayRecord)
    if ranking is None or replay is None:
        raise LedgerError(f"{run_id} has no ranking yet: nothing to report")
    build = ledger.build_of(run_id)
    with Session(ledger.reader) as session:
        found = found_in_run(session, run_id)
    build_report = None if build is None else _report_build(build, () if found is None else found.gates, live_build)
    flaws = Flaws(ledger)
    ends = {end.task_id: end for end in ledger.search_ends(run_id)}
    calls, account = ModelCalls(ledger), run_account(run_id)
    spent = calls.used(account)
    return RunReport(
        run_id=run_id,
        replay=replay.report,
        coverage=ranking.coverage,
        rank_correlation=ranking.rank_correlation,
        hot_ops=tuple(
            _report_op(
                hot_op, end, measurement_of(ledger, run_id, end), build, build_report, _why_left_out(ledger, flaws, end)
            )
            for hot_op in ranking.hot_ops
            for end in [ends.get(hot_op.task_id or "")]
        ),
        build=build_report,
        live=ledger.stage(run_id, LIVE_CHECKS, LiveChecks),
        end_to_end=None if found is None else found.end_to_end,
        spend_usd=spent.usd,
        spend_tokens=spent.tokens,
        budget_stops=calls.stops(account),
        wall_s=ledger.run_age_s(run_id),
    )


def report_tune(ledger: Ledger, run_id: str, task_id: str) -> TuneReport:
    """LedgerError: the search of this task has not ended in this run."""
    end = next((end for end in ledger.search_ends(run_id) if end.task_id == task_id), None)
    if end is None:
        raise LedgerError(f"the search of {run_id} has not ended: nothing to report")
    measurement = measurement_of(ledger, run_id, end)
    calls_per_hour = ledger.task(task_id).public_calls_per_hour
    heaviest = measurement.heaviest(calls_per_hour) if measurement is not None else None
    calls, account = ModelCalls(ledger), run_account(run_id)
    spent = calls.used(account)
    return TuneReport(
        run_id=run_id,
        task=task_id,
        op=end.op,
        decision=end.decision,
        candidate=end.candidate_id,
        best_baseline=heaviest.best_baseline if heaviest is not None else None,
        speedup_over_best=measurement.traffic_weighted_speedup if measurement is not None else None,
        interval=measurement.interval if measurement is not None else None,
        share_of_floor=measurement.share_of_floor(calls_per_hour) if measurement is not None else None,
        tried=end.tried,
        reason=end.reason,
        stop_reason=end.stop_reason,
        spend_usd=spent.usd,
        spend_tokens=spent.tokens,
        budget_stops=calls.stops(account),
        wall_s=ledger.run_age_s(run_id),
    )


def measurement_of(ledger: Ledger, run_id: str, end: SearchEnd | None) -> Measurement | None:
    """The most trustworthy measurement of a search's best candidate: its confirmation, else its race."""
    if end is None or end.candidate_id is None:
        return None
    for stage in (MeasurementStage.CONFIRM, MeasurementStage.RACE):
        found = ledger.measurement(run_id, end.task_id, end.candidate_id, stage)
        if found is not None:
            return found
    return None


def _report_build(build: BuildRecord, gates: tuple[Gate, ...], live_build: str | None) -> BuildReport:
    return BuildReport(
        id=build.id,
        path=build.path,
        kernels=len(build.task_ids),
        live=live_build == build.id,
        gates=gates,
    )


def _report_op(
    hot_op: HotOp,
    end: SearchEnd | None,
    measurement: Measurement | None,
    build: BuildRecord | None,
    build_report: BuildReport | None,
    why_left_out: str,
) -> OpReport:
    decision, reason = _decide(hot_op, end, build, build_report, why_left_out)
    calls_per_hour = {workload.shape: workload.calls_per_hour for workload in hot_op.workloads}
    heaviest = measurement.heaviest(calls_per_hour) if measurement is not None else None
    return OpReport(
        op=hot_op.op,
        site=hot_op.site,
        level=hot_op.level,
        candidate=end.candidate_id if end is not None else None,
        share_of_time=hot_op.share_of_time,
        share_by_class=hot_op.share_by_class,
        best_baseline=heaviest.best_baseline if heaviest is not None else None,
        speedup_over_best=measurement.traffic_weighted_speedup if measurement is not None else None,
        interval=measurement.interval if measurement is not None else None,
        share_of_floor=measurement.share_of_floor(calls_per_hour) if measurement is not None else None,
        decision=decision,
        reason=reason,
        stop_reason=end.stop_reason if end is not None else None,
    )


def _why_left_out(ledger: Ledger, flaws: Flaws, end: SearchEnd | None) -> str:
    """Of a win that is not in the run's build."""
    if end is None or end.candidate_id is None:
        return ""
    if (flaw := flaws.of(end.candidate_id)) is not None:
        return flaw
    if kind_of_device(ledger.task(end.task_id).device_id) != "cpu":
        return "it is for another device than the build"
    return "a kernel for its block, or those within it, save more"


def _decide(
    hot_op: HotOp,
    end: SearchEnd | None,
    build: BuildRecord | None,
    build_report: BuildReport | None,
    why_left_out: str,
) -> tuple[OpDecision, str]:
    if end is None:
        if hot_op.obstacle is not None:
            return OpDecision.NO_PROGRAM, hot_op.obstacle
        return OpDecision.UNDECIDED, "not searched: others had more to win"
    if end.decision != "won":
        return OpDecision(end.decision), end.reason
    if build is None or end.task_id not in build.task_ids:
        return OpDecision.WON_NOT_SHIPPED, why_left_out
    if build_report is None or not build_report.passed:
        return OpDecision.WON_NOT_SHIPPED, "the build did not pass its gates"
    return OpDecision.SHIPPED, end.reason
