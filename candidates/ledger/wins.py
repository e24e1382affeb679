"""proposed_of: what a run would propose as pull requests, from the facts in the ledger."""

from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.promotions import earned_promotion
from candidates.ledger.proposals import proposals_of
from candidates.ledger.run_report import report_run
from candidates.measurement import Stage as MeasurementStage
from candidates.pull_requests.win import Grouping, Proposed, Provenance, Win, group
from candidates.run import Ranking, Stage
from candidates.serving_build.manifest import ranges_of_wins

Versions = tuple[tuple[str, str], ...]


def proposed_of(ledger: Ledger, run_id: str, grouping: Grouping, versions: Versions) -> tuple[Proposed, ...]:
    """Of the kernels in the run's build, largest share of time first; none where the build did not pass its gates,
    or one of its kernels was found wrong since.

    `versions` of our own programs; the device's are added. LedgerError: the run has no ranking, or is none of a trace.
    """
    request = ledger.run_request(run_id)
    report = report_run(ledger, run_id, live_build=None)
    build, figures = ledger.build_of(run_id), report.end_to_end
    if build is None or report.build is None or not report.build.passed or figures is None:
        return ()
    ranking = ledger.stage(run_id, Stage.RANKING, Ranking)
    if ranking is None:
        raise LedgerError(f"{run_id} has no ranking")
    shares = {hot_op.task_id: hot_op for hot_op in ranking.hot_ops}
    wins, flaws = [], Flaws(ledger)
    for decision in ledger.promotions(run_id):
        if decision.task_id not in build.task_ids or not decision.is_promoted:
            continue
        if flaws.of(decision.candidate_id) is not None:
            return ()
        task, candidate = ledger.task(decision.task_id), ledger.candidate(decision.candidate_id)
        measurement = ledger.measurement(run_id, task.id, candidate.id, MeasurementStage.CONFIRM)
        if measurement is None:
            raise LedgerError(f"{run_id} promoted {candidate.id[:12]} without a confirmation")
        wins.append(
            Win(
                task=task,
                candidate=candidate,
                measurement=measurement,
                decision=earned_promotion(ledger, decision),
                site=ranking.sites[task.id],
                ranges=ranges_of_wins(task, measurement),
                share_of_time=shares[task.id].share_of_time,
                share_by_class=shares[task.id].share_by_class,
                # A later one would change what was published of this run.
                proposal=next(iter(proposals_of(ledger, candidate.id)), None),
            )
        )
    if not wins:
        return ()
    device = ledger.device(wins[0].task.device_id)
    if device is None:
        raise LedgerError(f"{run_id} has a build, but its device is not in the ledger")
    provenance = Provenance(
        run_id=run_id,
        build_id=build.id,
        trace_digest=request.trace_digest,
        model=request.model,
        device=device,
        versions=(*versions, ("torch", device.torch_version), ("compiler", device.compiler)),
        gates=report.build.gates,
        end_to_end=figures,
        spend_usd=report.spend_usd,
    )
    return group(wins, provenance, grouping)
