"""read_facts: what the facts say of candidates of one task, for their standings; read for many of them at once."""

from collections.abc import Sequence
from typing import NamedTuple

from sqlalchemy import exists, func, select
from sqlalchemy.orm import Session

from candidates.ledger.gates import found_of_build
from candidates.ledger.standing_rows import FoundWrongRow, TaskShareRow
from candidates.ledger.tables import (
    AttemptRow,
    BuildRow,
    EvaluationRow,
    PromotionRow,
    RetractionRow,
    RunRow,
    SearchEndRow,
    TaskRow,
    in_utc,
)
from candidates.promotion import PromotionDecision, Retraction, have_passed
from candidates.run import BuildRecord
from candidates.task import KernelTask


class Flaw(NamedTuple):
    reason: str
    found_s: float
    """When it was told, in seconds since 1970."""


class Shipping(NamedTuple):
    """How far the build has come for which a run promoted a kernel."""

    is_shipped: bool
    run_id: str | None
    """Of the promotion; None: there is none."""
    end_to_end: float
    """Speedup of the served model with the build; 0: unknown."""
    why_not: str


class StandingFacts(NamedTuple):
    """Beside the latest words; by candidate."""

    task: KernelTask
    share_of_time: float
    """Of the traffic that the task was last ranked in; 0: unknown."""
    promotions: dict[str, list[PromotionRow]]
    """The newest first."""
    ends: dict[str, SearchEndRow]
    """The latest search whose best it was."""
    firsts_s: dict[str, float]
    """When it was first judged for the task."""
    flaws: dict[str, Flaw]
    """What was found wrong with it at whatever task."""


def read_facts(session: Session, task_id: str, candidate_ids: Sequence[str]) -> StandingFacts:
    share = session.get(TaskShareRow, (task_id, ""))
    return StandingFacts(
        task=KernelTask.model_validate(session.scalars(select(TaskRow.record).where(TaskRow.task_id == task_id)).one()),
        share_of_time=0.0 if share is None else share.share,
        promotions=_promotions(session, task_id, candidate_ids),
        ends=_ends(session, task_id, candidate_ids),
        firsts_s=_firsts_s(session, task_id, candidate_ids),
        flaws=_flaws(session, candidate_ids),
    )


def decided_promotion(
    session: Session, task_id: str, rows: Sequence[PromotionRow], end: SearchEndRow | None
) -> tuple[PromotionDecision | None, Shipping]:
    """The latest, unless the search of a later run came to another end; and the newest run whose build shipped it."""
    if not rows:
        return None, _NOT_PROMOTED
    newest = rows[0]
    if (
        end is not None
        and end.run_id != newest.run_id
        and end.record["decision"] != "won"
        and in_utc(end.recorded_at) > in_utc(newest.recorded_at)
    ):
        return None, _NOT_PROMOTED
    shippings = [_shipping(session, row.run_id, task_id) for row in rows]
    shipped = next((shipping for shipping in shippings if shipping.is_shipped), shippings[0])
    return PromotionDecision.model_validate(newest.record), shipped


def read_served_model(session: Session, run_id: str) -> str | None:
    """None: the run is none of a model."""
    request = session.scalar(select(RunRow.record).where(RunRow.run_id == run_id))
    return None if request is None else request.get("model")


def _shipping(session: Session, run_id: str, task_id: str) -> Shipping:
    """Of a kernel that the run promoted for the task."""

    def held_back(why: str) -> Shipping:
        return Shipping(is_shipped=False, run_id=run_id, end_to_end=0.0, why_not=why)

    record = session.scalar(
        select(BuildRow.record).where(BuildRow.run_id == run_id).order_by(BuildRow.sequence.desc()).limit(1)
    )
    if record is None:
        return held_back("its run has made no build")
    build = BuildRecord.model_validate(record)
    if task_id not in build.task_ids:
        return held_back("left out of its run's build: other kernels there save more")
    found = found_of_build(session, build.id)
    if found is None:
        return held_back("its build was not measured yet")
    if not have_passed(found.gates):
        failed = ", ".join(gate.name for gate in found.gates if not gate.passed)
        return held_back(f"its build did not pass: {failed}")
    end_to_end = 0.0 if found.end_to_end is None else found.end_to_end.speedup
    return Shipping(is_shipped=True, run_id=run_id, end_to_end=end_to_end, why_not="")


_NOT_PROMOTED = Shipping(is_shipped=False, run_id=None, end_to_end=0.0, why_not="")
_PROMOTIONS_LOOKED_AT = 5
"""The newest of runs with a build, and of runs without: a kernel that is carried on has one a night."""


def _promotions(session: Session, task_id: str, candidate_ids: Sequence[str]) -> dict[str, list[PromotionRow]]:
    has_build = exists().where(BuildRow.run_id == PromotionRow.run_id)
    newest_first = func.row_number().over(
        partition_by=(PromotionRow.candidate_id, has_build), order_by=PromotionRow.sequence.desc()
    )
    numbered = select(PromotionRow.sequence, newest_first.label("place")).where(
        PromotionRow.task_id == task_id, PromotionRow.candidate_id.in_(candidate_ids)
    )
    numbered_rows = numbered.subquery()
    newest = select(numbered_rows.c.sequence).where(numbered_rows.c.place <= _PROMOTIONS_LOOKED_AT)
    found: dict[str, list[PromotionRow]] = {}
    for row in session.scalars(
        select(PromotionRow).where(PromotionRow.sequence.in_(newest)).order_by(PromotionRow.sequence.desc())
    ):
        found.setdefault(row.candidate_id, []).append(row)
    return found


def _ends(session: Session, task_id: str, candidate_ids: Sequence[str]) -> dict[str, SearchEndRow]:
    # Told apart here and not by the database: PostgreSQL looks into no JSON that holds a NUL.
    ends = session.scalars(select(SearchEndRow).where(SearchEndRow.task_id == task_id).order_by(SearchEndRow.sequence))
    by_candidate = {row.record["candidate_id"]: row for row in ends}
    return {candidate_id: row for candidate_id, row in by_candidate.items() if candidate_id in candidate_ids}


def _firsts_s(session: Session, task_id: str, candidate_ids: Sequence[str]) -> dict[str, float]:
    firsts_s: dict[str, float] = {}
    for kind in (AttemptRow, EvaluationRow):
        first = select(kind.candidate_id, func.min(kind.recorded_at)).group_by(kind.candidate_id)
        for candidate_id, moment in session.execute(
            first.where(kind.task_id == task_id, kind.candidate_id.in_(candidate_ids))
        ):
            first_s = in_utc(moment).timestamp()
            firsts_s[candidate_id] = min(first_s, firsts_s.get(candidate_id, first_s))
    return firsts_s


def _flaws(session: Session, candidate_ids: Sequence[str]) -> dict[str, Flaw]:
    """A person's word goes before that of a run, as in `Flaws`."""
    wrong = select(FoundWrongRow).where(FoundWrongRow.candidate_id.in_(candidate_ids))
    flaws = {row.candidate_id: Flaw(row.reason, row.found_s) for row in session.scalars(wrong)}
    retracted: dict[str, Flaw] = {}
    rows = select(RetractionRow.record, RetractionRow.recorded_at).where(RetractionRow.candidate_id.in_(candidate_ids))
    for record, recorded_at in session.execute(rows.order_by(RetractionRow.sequence)):
        retraction = Retraction.model_validate(record)
        flaw = Flaw(f"retracted: {retraction.reason}", in_utc(recorded_at).timestamp())
        retracted.setdefault(retraction.candidate_id, flaw)
    return flaws | retracted
