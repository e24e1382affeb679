"""Standings: kept up with the facts, in the transaction that adds a fact; `rebuild` makes them all again.

A standing is a function of the facts alone, computed anew whenever one of them is added. It is asked for by
`find_standings`.
"""

import math
from collections.abc import Collection, Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

from sqlalchemy import Select, delete, exists, func, select, update
from sqlalchemy.orm import Session

from candidates.ledger.database import commit_in_order
from candidates.ledger.gates import end_to_end_of, gates_of_run, measuring_run
from candidates.ledger.latest_words import Evaluation, latest_words_on
from candidates.ledger.standing_rows import StandingRow, TaskShareRow
from candidates.ledger.tables import (
    AttemptRow,
    BuildRow,
    EvaluationRow,
    Fact,
    MeasurementRow,
    PromotionRow,
    RetractionRow,
    RunRow,
    SearchEndRow,
    StageRow,
    TaskRow,
    in_utc,
)
from candidates.measurement import Measurement
from candidates.promotion import PromotionDecision, Retraction, have_passed
from candidates.run import BUILD_FAILURE, LIVE_CHECKS, BuildRecord, LiveChecks, Ranking, SearchEnd, Stage
from candidates.standing import decide_state
from candidates.task import KernelTask

MOST_REASON_CHARACTERS, MOST_NAME_CHARACTERS = 500, 200
MOST_PAIRS = 2**31 - 1
"""That the column takes; a count beyond it is a claim, and the fact is kept as it is."""
_COMPUTED_AT_ONCE = 200

T = TypeVar("T", str, str | None)

_Place = tuple[str, str]
"""Ids of a task and a candidate."""


class Flaw(NamedTuple):
    candidate_id: str
    reason: str
    found_s: float
    """When it was told, in seconds since 1970."""


def follow(session: Session, fact: Fact) -> None:
    """Brings up to date what a fact changes that was just added in this session's transaction."""
    if isinstance(fact, AttemptRow | MeasurementRow | PromotionRow | EvaluationRow):
        _refresh(session, [(fact.task_id, fact.candidate_id)])
    elif isinstance(fact, SearchEndRow):
        if (candidate_id := fact.record["candidate_id"]) is not None:
            _refresh(session, [(fact.task_id, candidate_id)])
    elif isinstance(fact, BuildRow) or (isinstance(fact, StageRow) and fact.stage in (Stage.END_TO_END, BUILD_FAILURE)):
        _refresh(session, _in_builds(session, fact.run_id))
    elif isinstance(fact, StageRow) and fact.stage == Stage.RANKING:
        _keep_shares(session, Ranking.model_validate(fact.record))
    elif isinstance(fact, StageRow) and fact.stage == LIVE_CHECKS:
        _retract(session, _wrong(fact.record, fact.recorded_at))
    elif isinstance(fact, RetractionRow):
        _retract(session, [_as_flaw(fact.record, fact.recorded_at)])


def rebuild(session: Session) -> None:
    """All standings from all facts, in this session's transaction. Nobody else may be adding facts."""
    session.execute(delete(StandingRow))
    session.execute(delete(TaskShareRow))
    for record in session.scalars(_stages(Stage.RANKING)):
        _keep_shares(session, Ranking.model_validate(record))
    tried = (select(kind.task_id, kind.candidate_id).distinct() for kind in (AttemptRow, EvaluationRow))
    _compute(session, sorted({place for places in tried for place in session.execute(places)}))
    checks = select(StageRow.record, StageRow.recorded_at).where(StageRow.stage == LIVE_CHECKS)
    for record, recorded_at in session.execute(checks.order_by(StageRow.sequence)).all():
        _retract(session, _wrong(record, recorded_at))


def _wrong(record: dict[str, Any], recorded_at: datetime) -> tuple[Flaw, ...]:
    """Of the live kernels that a run looked at."""
    found_s = in_utc(recorded_at).timestamp()
    return tuple(Flaw(each.candidate_id, each.reason, found_s) for each in LiveChecks.model_validate(record).wrong)


def _as_flaw(record: dict[str, Any], recorded_at: datetime) -> Flaw:
    retraction = Retraction.model_validate(record)
    return Flaw(retraction.candidate_id, f"retracted: {retraction.reason}", in_utc(recorded_at).timestamp())


def _refresh(session: Session, places: Collection[_Place]) -> None:
    for task_id, candidate_id in sorted(places):
        # Of two that add facts of one candidate the second must see the first's.
        commit_in_order(session, f"standing {task_id} {candidate_id}")
    _compute(session, places)


class _Known(NamedTuple):
    """What is asked of the facts beside the latest words; by candidate of one task."""

    task: KernelTask
    share_of_time: float
    promotions: dict[str, list[PromotionRow]]
    """The newest first."""
    ends: dict[str, SearchEndRow]
    """The latest search whose best it was."""
    firsts_s: dict[str, float]
    """When it was first judged for the task."""
    flaws: dict[str, str]
    """What was found wrong with it at whatever task."""
    flawed_s: dict[str, float]
    """No earlier than when that was told, as far as it was told of this task's."""
    have_standings: set[str]
    served_models: dict[str, str | None]
    """By run, those that were asked for."""


def _compute(session: Session, places: Iterable[_Place]) -> None:
    """Those of one task that follow each other are read together."""
    served_models: dict[str, str | None] = {}
    for task_id, of_task in groupby(places, key=itemgetter(0)):
        rest = (candidate_id for _, candidate_id in of_task)
        while candidate_ids := list(islice(rest, _COMPUTED_AT_ONCE)):
            known = _read_known(session, task_id, candidate_ids, served_models)
            _compute_some(session, task_id, candidate_ids, known)


def _compute_some(session: Session, task_id: str, candidate_ids: Sequence[str], known: _Known) -> None:
    words = latest_words_on(session, task_id, candidate_ids)
    # All are read before the first is written: each read writes what is waiting first.
    candidates = {word.attempt.proposal.candidate.id: word for word in words}
    lines = {candidate_id: _values(session, known, candidate_id, word) for candidate_id, word in candidates.items()}
    for candidate_id, values in lines.items():
        if candidate_id not in known.have_standings:
            session.add(StandingRow(task_id=task_id, candidate_id=candidate_id, **values))
        else:
            place = (StandingRow.task_id == task_id, StandingRow.candidate_id == candidate_id)
            session.execute(update(StandingRow).where(*place).values(**values))
    session.flush()


def _read_known(
    session: Session, task_id: str, candidate_ids: Sequence[str], served_models: dict[str, str | None]
) -> _Known:
    share = session.get(TaskShareRow, (task_id, ""))
    rows = select(StandingRow.candidate_id).where(
        StandingRow.task_id == task_id, StandingRow.candidate_id.in_(candidate_ids)
    )
    flaws, flawed_s = _flaws(session, task_id, candidate_ids)
    return _Known(
        task=KernelTask.model_validate(session.scalars(select(TaskRow.record).where(TaskRow.task_id == task_id)).one()),
        share_of_time=0.0 if share is None else share.share,
        promotions=_promotions(session, task_id, candidate_ids),
        ends=_ends(session, task_id, candidate_ids),
        firsts_s=_firsts_s(session, task_id, candidate_ids),
        flaws=flaws,
        flawed_s=flawed_s,
        have_standings=set(session.scalars(rows)),
        served_models=served_models,
    )


def _values(session: Session, known: _Known, candidate_id: str, word: Evaluation) -> dict[str, Any]:
    task, attempt, proposal = known.task, word.attempt, word.attempt.proposal
    end, flaw = known.ends.get(candidate_id), known.flaws.get(candidate_id, "")
    promotion, shipping = _promotion(session, task.id, known.promotions.get(candidate_id, []), end)
    outcome = decide_state(
        attempt.verdict,
        promotion,
        None if end is None else SearchEnd.model_validate(end.record),
        is_shipped=shipping.is_shipped,
        why_not_shipped=shipping.why_not,
        flaw=flaw or None,
    )
    run_id = shipping.run_id or word.run_id
    return {
        "op": task.op,
        "site": _fit(task.site),
        "level": task.level.value,
        "device_id": task.device_id,
        "served_model": None if run_id is None else _name(_served_model(session, known, run_id)),
        "language": proposal.candidate.language.value,
        "agent": _name(proposal.agent),
        "endpoint": _name(proposal.model),
        "parents": list(proposal.parents),
        "run_id": run_id,
        "state": outcome.state.value,
        "reason": _fit(outcome.reason)[:MOST_REASON_CHARACTERS],
        "flaw": flaw,
        "share_of_time": known.share_of_time,
        "end_to_end": shipping.end_to_end,
        "proposed_s": known.firsts_s.get(candidate_id, word.evaluated_at.timestamp()),
        "updated_s": max(word.evaluated_at.timestamp(), known.flawed_s.get(candidate_id, 0.0)),
    } | _figures(task, attempt.measurement)


def _fit(text: T) -> T:
    """In a column, where no text may hold a NUL."""
    return text if text is None else text.replace("\0", "\N{REPLACEMENT CHARACTER}")


def _name(text: T) -> T:
    """In an index, whose rows PostgreSQL keeps short."""
    return text if text is None else _fit(text)[:MOST_NAME_CHARACTERS]


def _figures(task: KernelTask, measured: Measurement | None) -> dict[str, Any]:
    if measured is None:
        return {
            **dict.fromkeys(("speedup", "speedup_low", "speedup_high", "share_of_floor"), 0.0),
            "pairs": 0,
            "stage": None,
        }
    return {
        "speedup": measured.traffic_weighted_speedup,
        "speedup_low": measured.interval.low,
        "speedup_high": measured.interval.high,
        "share_of_floor": share if math.isfinite(share := measured.share_of_floor(task.public_calls_per_hour)) else 0.0,
        "pairs": min(sum(workload.pairs for workload in measured.workloads), MOST_PAIRS),
        "stage": measured.stage.value,
    }


class _Shipping(NamedTuple):
    is_shipped: bool
    run_id: str | None
    """Of the promotion; None: there is none."""
    end_to_end: float
    why_not: str


_NOT_PROMOTED = _Shipping(is_shipped=False, run_id=None, end_to_end=0.0, why_not="")
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


def _promotion(
    session: Session, task_id: str, rows: Sequence[PromotionRow], end: SearchEndRow | None
) -> tuple[PromotionDecision | None, _Shipping]:
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


def _shipping(session: Session, run_id: str, task_id: str) -> _Shipping:
    """Of a kernel that the run promoted for the task."""

    def held_back(why: str) -> _Shipping:
        return _Shipping(is_shipped=False, run_id=run_id, end_to_end=0.0, why_not=why)

    record = session.scalar(
        select(BuildRow.record).where(BuildRow.run_id == run_id).order_by(BuildRow.sequence.desc()).limit(1)
    )
    if record is None:
        return held_back("its run has made no build")
    build = BuildRecord.model_validate(record)
    if task_id not in build.task_ids:
        return held_back("left out of its run's build: other kernels there save more")
    measured_in = measuring_run(session, build.id)
    if measured_in is None:
        return held_back("its build was not measured yet")
    gates = gates_of_run(session, measured_in)
    if not have_passed(gates):
        failed = ", ".join(gate.name for gate in gates if not gate.passed)
        return held_back(f"its build did not pass: {failed}")
    figures = end_to_end_of(session, measured_in)
    return _Shipping(is_shipped=True, run_id=run_id, end_to_end=0.0 if figures is None else figures.speedup, why_not="")


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


def _served_model(session: Session, known: _Known, run_id: str) -> str | None:
    if run_id not in known.served_models:
        request = session.scalar(select(RunRow.record).where(RunRow.run_id == run_id))
        known.served_models[run_id] = None if request is None else request.get("model")
    return known.served_models[run_id]


def _flaws(session: Session, task_id: str, candidate_ids: Sequence[str]) -> tuple[dict[str, str], dict[str, float]]:
    """Reasons, and when they were told."""
    known = select(StandingRow.candidate_id, StandingRow.flaw, StandingRow.task_id, StandingRow.updated_s).where(
        StandingRow.candidate_id.in_(candidate_ids), StandingRow.flaw != ""
    )
    flaws: dict[str, str] = {}
    flawed_s: dict[str, float] = {}
    for candidate_id, reason, where, updated_s in session.execute(known):
        flaws[candidate_id] = reason
        if where == task_id:
            flawed_s[candidate_id] = updated_s
    rows = select(RetractionRow.record, RetractionRow.recorded_at).where(RetractionRow.candidate_id.in_(candidate_ids))
    for record, recorded_at in session.execute(rows.order_by(RetractionRow.sequence)):
        flaw = _as_flaw(record, recorded_at)
        flaws.setdefault(flaw.candidate_id, _fit(flaw.reason))
        flawed_s[flaw.candidate_id] = max(flaw.found_s, flawed_s.get(flaw.candidate_id, 0.0))
    return flaws, flawed_s


def _retract(session: Session, flaws: Iterable[Flaw]) -> None:
    for flaw in flaws:
        rows = session.scalars(select(StandingRow).where(StandingRow.candidate_id == flaw.candidate_id)).all()
        for row in rows:
            row.flaw = row.flaw or _fit(flaw.reason)
            row.updated_s = max(row.updated_s, flaw.found_s)
        session.flush()
        _refresh(session, [(row.task_id, row.candidate_id) for row in rows])


def _in_builds(session: Session, run_id: str) -> list[_Place]:
    """Kernels of the run, and of whoever else made a build of its."""
    build_ids = select(BuildRow.build_id).where(BuildRow.run_id == run_id)
    run_ids = select(BuildRow.run_id).where(BuildRow.build_id.in_(build_ids))
    promoted = select(PromotionRow.task_id, PromotionRow.candidate_id).where(PromotionRow.run_id.in_(run_ids))
    return sorted(set(session.execute(promoted)))


def _keep_shares(session: Session, ranking: Ranking) -> None:
    for task_id, workload_class, share in _shares(ranking):
        session.merge(TaskShareRow(task_id=task_id, workload_class=workload_class, share=share))
        if not workload_class:
            session.execute(update(StandingRow).where(StandingRow.task_id == task_id).values(share_of_time=share))
    session.flush()


def _shares(ranking: Ranking) -> Iterator[tuple[str, str, float]]:
    for hot_op in ranking.hot_ops:
        if hot_op.task_id is not None:
            yield hot_op.task_id, "", hot_op.share_of_time
            for workload_class, share in hot_op.share_by_class.items():
                yield hot_op.task_id, workload_class, share


def _stages(stage: str) -> Select[dict[str, Any]]:
    return select(StageRow.record).where(StageRow.stage == stage).order_by(StageRow.sequence)
