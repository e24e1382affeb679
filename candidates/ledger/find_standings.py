"""find_standings: the one ranking, by which pages, API, commands and feeds list kernels.

Beside it `find_facets`: what there is to filter by.
"""

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, Select, and_, not_, select, tuple_
from sqlalchemy.orm import InstrumentedAttribute

from candidates.candidate import LanguageName
from candidates.ledger.ledger import Ledger
from candidates.ledger.standing_rows import StandingRow, TaskShareRow
from candidates.measurement import Interval, Stage
from candidates.standing import (
    Cursor,
    Facets,
    Filters,
    InService,
    KernelPlace,
    Page,
    Sort,
    Standing,
    State,
    in_service,
    stored_states,
)
from candidates.task import SiteLevel

MOST_STANDINGS = 200
"""On one page."""

_ORIGINS = (StandingRow.served_model, StandingRow.language, StandingRow.agent, StandingRow.endpoint)
"""Where a kernel is from; an index has them all."""

_SORT_COLUMNS: dict[Sort, InstrumentedAttribute[float]] = {
    Sort.AGE: StandingRow.updated_s,
    Sort.SPEEDUP: StandingRow.speedup,
    Sort.FLOOR: StandingRow.share_of_floor,
    Sort.SHARE: StandingRow.share_of_time,
    Sort.END_TO_END: StandingRow.end_to_end,
}


def find_standings(
    ledger: Ledger,
    filters: Filters,
    sort: Sort = Sort.AGE,
    *,
    serving: InService,
    limit: int = 50,
    after: Cursor | None = None,
) -> Page:
    """Largest first, of equal ones the newer first; at most MOST_STANDINGS.

    `serving` says which kernels are live now, `after` is `Page.next` of the page before.
    """
    limit = min(limit, MOST_STANDINGS)
    column = _sort_column(filters, sort)
    found: list[Row[Any]] = []
    with ledger.reader.connect() as connection:
        for condition in _conditions(filters.states, serving):
            # One walk along an index for each state; together they are sorted here.
            statement = _select(filters).add_columns(column.label("value")).where(condition)
            if after is not None:
                statement = statement.where(tuple_(column, StandingRow.number) < (after.value, after.number))
            found += connection.execute(statement.order_by(column.desc(), StandingRow.number.desc()).limit(limit + 1))
    found.sort(key=lambda row: (row.value, row.number), reverse=True)
    shown = found[:limit]
    standings = tuple(in_service(as_standing(row, row.share), serving) for row in shown)
    last = Cursor(value=shown[-1].value, number=shown[-1].number) if len(found) > limit else None
    return Page(standings=standings, next=last)


def standings_of(ledger: Ledger, candidate_ids: Iterable[str], serving: InService) -> tuple[Standing, ...]:
    """At every task, the newest first."""
    statement = select(StandingRow).where(StandingRow.candidate_id.in_(list(candidate_ids)))
    with ledger.reader.connect() as connection:
        rows = connection.execute(statement.order_by(StandingRow.updated_s.desc(), StandingRow.number.desc()))
        return tuple(in_service(as_standing(row, row.share_of_time), serving) for row in rows)


def find_facets(ledger: Ledger) -> Facets:
    """Reads two indexes from end to end; keep it for a while."""
    with ledger.reader.connect() as connection:
        places = connection.execute(select(StandingRow.op, StandingRow.device_id).distinct()).all()
        origins = connection.execute(select(*_ORIGINS).distinct()).all()
        classes = connection.execute(select(TaskShareRow.workload_class).distinct()).all()
    ops, device_ids = _columns(places, 2)
    served_models, languages, agents, endpoints = _columns(origins, 4)
    (workload_classes,) = _columns(classes, 1)
    return Facets(
        ops=ops,
        device_ids=device_ids,
        served_models=served_models,
        languages=languages,
        agents=agents,
        endpoints=endpoints,
        workload_classes=workload_classes,
    )


def _columns(rows: Sequence[Sequence[str | None]], count: int) -> list[tuple[str, ...]]:
    """What each column holds, sorted; neither nothing nor the empty text."""
    return [tuple(sorted({value for row in rows if (value := row[column])})) for column in range(count)]


def _select(filters: Filters) -> Select[StandingRow, float]:
    equal = {
        StandingRow.op: filters.op,
        StandingRow.site: filters.site,
        StandingRow.device_id: filters.device_id,
        StandingRow.served_model: filters.served_model,
        StandingRow.language: filters.language,
        StandingRow.agent: filters.agent,
        StandingRow.endpoint: filters.endpoint,
        StandingRow.run_id: filters.run_id,
        StandingRow.task_id: filters.task_id,
    }
    conditions = [column == value for column, value in equal.items() if value is not None]
    if filters.workload_class is None:
        return select(StandingRow, StandingRow.share_of_time.label("share")).where(*conditions)
    in_class = and_(
        TaskShareRow.task_id == StandingRow.task_id,
        TaskShareRow.workload_class == filters.workload_class,
        TaskShareRow.share > 0,
    )
    return select(StandingRow, TaskShareRow.share.label("share")).join(TaskShareRow, in_class).where(*conditions)


def _sort_column(filters: Filters, sort: Sort) -> InstrumentedAttribute[float]:
    if sort is Sort.SHARE and filters.workload_class is not None:
        return TaskShareRow.share
    return _SORT_COLUMNS[sort]


def _conditions(states: Sequence[State], serving: InService) -> Iterator[ColumnElement[bool]]:
    """One for each state that is asked for; no standing satisfies two."""
    for state in stored_states(states):
        condition = StandingRow.state == state.value
        none_is_live = not serving.live or state is State.RETRACTED
        yield condition if none_is_live else and_(condition, not_(is_at(serving.live)))
    for state, places in ((State.LIVE, serving.live - serving.shadow), (State.SHADOW, serving.live & serving.shadow)):
        if state in states and places:
            yield and_(is_at(places), StandingRow.state != State.RETRACTED.value)


def is_at(places: Iterable[KernelPlace]) -> ColumnElement[bool]:
    return tuple_(StandingRow.candidate_id, StandingRow.task_id).in_(
        sorted((place.candidate_id, place.task_id) for place in places)
    )


def as_standing(row: StandingRow | Row[Any], share_of_time: float) -> Standing:
    """`row` as an object, or as a connection gives it, without a session: half the time, for the fifty of a page."""
    # Not validated: the rows are our own.
    return Standing.model_construct(
        task_id=row.task_id,
        candidate_id=row.candidate_id,
        op=row.op,
        site=row.site,
        level=SiteLevel(row.level),
        device_id=row.device_id,
        served_model=row.served_model,
        language=LanguageName(row.language),
        agent=row.agent,
        endpoint=row.endpoint,
        parents=tuple(row.parents),
        run_id=row.run_id,
        state=State(row.state),
        reason=row.reason,
        speedup=row.speedup or None,
        interval=Interval(row.speedup_low, row.speedup_high) if row.speedup else None,
        pairs=row.pairs,
        stage=None if row.stage is None else Stage(row.stage),
        share_of_floor=row.share_of_floor or None,
        share_of_time=share_of_time or None,
        end_to_end=row.end_to_end or None,
        proposed_at=datetime.fromtimestamp(row.proposed_s, UTC),
        updated_at=datetime.fromtimestamp(row.updated_s, UTC),
    )
