"""Standings: kept up with the facts, in the transaction that adds a fact; `rebuild` makes them all again.

A standing is a function of the facts alone, computed anew whenever one of them is added. It is asked for by
`find_standings`.
"""

import functools
import math
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import groupby, islice
from operator import itemgetter
from typing import Any, TypeVar

from sqlalchemy import Select, delete, select, update
from sqlalchemy.orm import Session

from candidates.ledger.database import commit_in_order
from candidates.ledger.latest_words import Evaluation, latest_words
from candidates.ledger.standing_facts import StandingFacts, decided_promotion, read_facts, read_served_model
from candidates.ledger.standing_rows import FoundWrongRow, StandingRow, TaskShareRow
from candidates.ledger.tables import (
    AttemptRow,
    BuildRow,
    EvaluationRow,
    Fact,
    MeasurementRow,
    PromotionRow,
    RetractionRow,
    SearchEndRow,
    StageRow,
    in_utc,
)
from candidates.measurement import Measurement
from candidates.run import BUILD_FAILURE, LIVE_CHECKS, LiveChecks, Ranking, SearchEnd, Stage
from candidates.standing import decide_state
from candidates.task import KernelTask

MOST_REASON_CHARACTERS, MOST_NAME_CHARACTERS = 500, 200
MOST_PAIRS = 2**31 - 1
"""That the column takes; a count beyond it is a claim, and the fact is kept as it is."""
_COMPUTED_AT_ONCE = 200

T = TypeVar("T", str, str | None)

_Place = tuple[str, str]
"""Ids of a task and a candidate."""


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
        _refresh(session, _places_of(session, _keep_wrong(session, fact)))
    elif isinstance(fact, RetractionRow):
        _refresh(session, _places_of(session, [fact.candidate_id]))


def rebuild(session: Session) -> None:
    """All standings from all facts, in this session's transaction. Nobody else may be adding facts."""
    for table in (StandingRow, TaskShareRow, FoundWrongRow):
        session.execute(delete(table))
    for ranked in session.scalars(_stages(Stage.RANKING)):
        _keep_shares(session, Ranking.model_validate(ranked.record))
    for checked in session.scalars(_stages(LIVE_CHECKS)):
        _keep_wrong(session, checked)
    tried = (select(kind.task_id, kind.candidate_id).distinct() for kind in (AttemptRow, EvaluationRow))
    _compute(session, sorted({place for places in tried for place in session.execute(places)}))


def _refresh(session: Session, places: Collection[_Place]) -> None:
    for task_id, candidate_id in sorted(places):
        # Of two that add facts of one candidate the second must see the first's.
        commit_in_order(session, f"standing {task_id} {candidate_id}")
    _compute(session, places)


def _compute(session: Session, places: Iterable[_Place]) -> None:
    """Those of one task that follow each other are read together."""
    model_of_run = functools.cache(functools.partial(read_served_model, session))
    for task_id, of_task in groupby(places, key=itemgetter(0)):
        rest = (candidate_id for _, candidate_id in of_task)
        while candidate_ids := list(islice(rest, _COMPUTED_AT_ONCE)):
            _compute_some(session, task_id, candidate_ids, model_of_run)


def _compute_some(
    session: Session, task_id: str, candidate_ids: Sequence[str], model_of_run: Callable[[str], str | None]
) -> None:
    facts = read_facts(session, task_id, candidate_ids)
    known = set(
        session.scalars(
            select(StandingRow.candidate_id).where(
                StandingRow.task_id == task_id, StandingRow.candidate_id.in_(candidate_ids)
            )
        )
    )
    words = {word.attempt.proposal.candidate.id: word for word in latest_words(session, task_id, candidate_ids)}
    # All are read before the first is written: each read writes what is waiting first.
    lines = {
        candidate_id: _values(session, facts, candidate_id, word, model_of_run) for candidate_id, word in words.items()
    }
    for candidate_id, values in lines.items():
        if candidate_id not in known:
            session.add(
                StandingRow(task_id=task_id, candidate_id=candidate_id, share_of_time=facts.share_of_time, **values)
            )
        else:
            place = (StandingRow.task_id == task_id, StandingRow.candidate_id == candidate_id)
            # The share is the rankings' to change: it may have changed since it was read here.
            session.execute(update(StandingRow).where(*place).values(**values))
    session.flush()


def _values(
    session: Session,
    facts: StandingFacts,
    candidate_id: str,
    word: Evaluation,
    model_of_run: Callable[[str], str | None],
) -> dict[str, Any]:
    task, attempt, proposal = facts.task, word.attempt, word.attempt.proposal
    end, flaw = facts.ends.get(candidate_id), facts.flaws.get(candidate_id)
    promotion, shipping = decided_promotion(session, task.id, facts.promotions.get(candidate_id, []), end)
    outcome = decide_state(
        attempt.verdict,
        promotion,
        None if end is None else SearchEnd.model_validate(end.record),
        is_shipped=shipping.is_shipped,
        why_not_shipped=shipping.why_not,
        flaw=None if flaw is None else flaw.reason,
    )
    run_id = shipping.run_id or word.run_id
    judged_s = word.evaluated_at.timestamp()
    return {
        "op": task.op,
        "site": _fit(task.site),
        "level": task.level.value,
        "device_id": task.device_id,
        "served_model": None if run_id is None else _name(model_of_run(run_id)),
        "language": proposal.candidate.language.value,
        "agent": _name(proposal.agent),
        "endpoint": _name(proposal.model),
        "parents": list(proposal.parents),
        "run_id": run_id,
        "state": outcome.state.value,
        "reason": _fit(outcome.reason)[:MOST_REASON_CHARACTERS],
        "end_to_end": shipping.end_to_end,
        "proposed_s": facts.firsts_s.get(candidate_id, judged_s),
        "updated_s": judged_s if flaw is None else max(judged_s, flaw.found_s),
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


def _keep_wrong(session: Session, checked: StageRow) -> list[str]:
    """Ids of the live kernels that a run found wrong; what was found first of each is kept."""
    commit_in_order(session, "found wrong")
    found_s = in_utc(checked.recorded_at).timestamp()
    wrong = LiveChecks.model_validate(checked.record).wrong
    for each in wrong:
        if session.get(FoundWrongRow, each.candidate_id) is None:
            session.add(FoundWrongRow(candidate_id=each.candidate_id, reason=_fit(each.reason), found_s=found_s))
            session.flush()
    return [each.candidate_id for each in wrong]


def _places_of(session: Session, candidate_ids: Sequence[str]) -> list[_Place]:
    """Every task at which they stand."""
    rows = select(StandingRow.task_id, StandingRow.candidate_id).where(StandingRow.candidate_id.in_(candidate_ids))
    return sorted(session.execute(rows))


def _in_builds(session: Session, run_id: str) -> list[_Place]:
    """Kernels of the run, and of whoever else made a build of its."""
    build_ids = select(BuildRow.build_id).where(BuildRow.run_id == run_id)
    run_ids = select(BuildRow.run_id).where(BuildRow.build_id.in_(build_ids))
    promoted = select(PromotionRow.task_id, PromotionRow.candidate_id).where(PromotionRow.run_id.in_(run_ids))
    return sorted(set(session.execute(promoted)))


def _keep_shares(session: Session, ranking: Ranking) -> None:
    # Two runs may rank one task at once.
    commit_in_order(session, "task shares")
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


def _stages(stage: str) -> Select[StageRow]:
    return select(StageRow).where(StageRow.stage == stage).order_by(StageRow.sequence)
