"""past_winners: the best kernels that earlier searches found for tasks like this one, on the same device."""

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.agent import Attempt
from candidates.ledger.evaluations import Evaluations
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import PromotionRow
from candidates.measurement import Measurement
from candidates.op_class import Likeness, compare_tasks
from candidates.promotion import PromotionDecision
from candidates.task import KernelTask
from candidates.verdict import Accepted

_Rank = tuple[Likeness, bool, float, str]


def past_winners(ledger: Ledger, task: KernelTask, most: int = 3) -> tuple[Attempt, ...]:
    """Accepted kernels, measured faster than their best baseline, that are their agents' best for one task.

    The most alike tasks first (`candidates.op_class`; the task itself is the most alike, with what the present run has
    found so far: an author who has that leaves it out), within one degree of likeness those that were promoted, then
    the fastest. What a kernel was last judged and measured counts. Figures of workloads that are hidden, in `task` or
    in the kernel's own, are left out.
    """
    flaws = Flaws(ledger)
    best: dict[tuple[str, str], tuple[_Rank, Attempt]] = {}
    for other in ledger.tasks():
        if other.device_id != task.device_id or (likeness := compare_tasks(task, other)) is Likeness.NONE:
            continue
        promoted = _promoted(ledger, other.id)
        for attempt, *_ in Evaluations(ledger).of(other.id):
            candidate_id, measured = attempt.proposal.candidate.id, attempt.measurement
            if measured is None or measured.traffic_weighted_speedup <= 1 or not isinstance(attempt.verdict, Accepted):
                continue
            if flaws.of(candidate_id) is not None:
                continue
            rank = (likeness, candidate_id in promoted, measured.traffic_weighted_speedup, candidate_id)
            place = (other.id, attempt.proposal.agent)
            if place not in best or best[place][0] < rank:
                shown = attempt.model_copy(update={"measurement": _without_hidden(measured, task, other)})
                best[place] = (rank, shown)
    winners: dict[str, Attempt] = {}
    for _, attempt in sorted(best.values(), key=lambda ranked: ranked[0], reverse=True):
        winners.setdefault(attempt.proposal.candidate.id, attempt)
    return tuple(winners.values())[:most]


def _promoted(ledger: Ledger, task_id: str) -> set[str]:
    with Session(ledger.engine) as session:
        records = session.scalars(select(PromotionRow.record).where(PromotionRow.task_id == task_id))
        decisions = [PromotionDecision.model_validate(record) for record in records]
    return {decision.candidate_id for decision in decisions if decision.is_promoted}


def _without_hidden(measurement: Measurement, task: KernelTask, other: KernelTask) -> Measurement:
    hidden = {workload.name for workload in (*task.hidden_workloads, *other.hidden_workloads)}
    shown = tuple(each for each in measurement.workloads if each.workload not in hidden)
    return measurement.model_copy(update={"workloads": shown})
