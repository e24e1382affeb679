"""What is known of one op: where it was tried, how kernels ended there, the best ones, and where those came from.

Every query is bounded, or walks an index alone: an op may have many thousands of kernels.
"""

import functools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, NamedTuple

from sqlalchemy import ColumnElement, Connection, Select, bindparam, func, select, union_all

from candidates.ledger.find_standings import as_standing, is_at
from candidates.ledger.ledger import Ledger
from candidates.ledger.standing_rows import StandingRow, TaskShareRow
from candidates.ledger.tables import AttemptRow, EvaluationRow, MeasurementRow, in_utc
from candidates.measurement import Interval, Measurement
from candidates.standing import InService, Standing, State, in_service

_LOOKED_AT_FOR_SITES = 60
"""Kernels of each state, those judged last: sites and models are in no index."""

_LOOKED_AT_FOR_A_MEASUREMENT = 50
_MOST_GENERATIONS = 8
_MOST_PARENTS = 8
"""Of one kernel; its author may have named any number."""


class OpPlace(NamedTuple):
    """Where an op is tuned."""

    device_id: str
    site: str
    served_model: str | None


class TriedOn(NamedTuple):
    device_id: str
    counts: Mapping[State, int]
    """Kernels at every site of the op, by their states."""


class PastWin(NamedTuple):
    candidate_id: str
    run_id: str | None
    state: State
    speedup: float
    """0: it was never measured; so are both ends of the interval."""
    interval: Interval
    proposed_at: datetime


def devices_of(ledger: Ledger, op: str, serving: InService) -> tuple[TriedOn, ...]:
    """Devices that kernels for the op were judged for, the latest first; none: the op is not known."""
    counts = select(StandingRow.device_id, StandingRow.state, func.count(), func.max(StandingRow.updated_s))
    found: dict[str, Counter[State]] = defaultdict(Counter)
    newest: dict[str, float] = defaultdict(float)
    with ledger.reader.connect() as connection:
        grouped = counts.where(StandingRow.op == op).group_by(StandingRow.device_id, StandingRow.state)
        for device_id, state, count, updated_s in connection.execute(grouped):
            found[device_id][State(state)] = count
            newest[device_id] = max(newest[device_id], updated_s)
        # An expression, so that the few that are live are looked up and not all that was tried for the op.
        live = select(StandingRow).where(StandingRow.op + "" == op, is_at(serving.live))
        for row in connection.execute(live) if serving.live else ():
            told = in_service(as_standing(row, row.share_of_time), serving)
            found[row.device_id] += Counter({told.state: 1})
            found[row.device_id] -= Counter({State(row.state): 1})
    ordered = sorted(found, key=lambda device_id: (-newest[device_id], device_id))
    return tuple(
        TriedOn(device_id, {state: found[device_id][state] for state in State if found[device_id][state] > 0})
        for device_id in ordered
    )


def places_of(ledger: Ledger, op: str, device_id: str) -> tuple[OpPlace, ...]:
    """Where on the device kernels for the op were judged lately, the latest first."""
    with ledger.reader.connect() as connection:
        found = connection.execute(_latest_places(), {"op": op, "device_id": device_id}).all()
    return tuple(OpPlace(device_id, site, model) for site, model, _ in found)


@functools.cache
def _latest_places() -> Select[str, str | None, float]:
    """Composed once, as that takes longer than to run it."""
    at = StandingRow.op == bindparam("op"), StandingRow.device_id == bindparam("device_id")
    columns = StandingRow.site, StandingRow.served_model, StandingRow.updated_s
    latest = union_all(
        *(
            select(
                select(*columns)
                .where(*at, StandingRow.state == state.value)
                .order_by(StandingRow.updated_s.desc(), StandingRow.number.desc())
                .limit(_LOOKED_AT_FOR_SITES)
                .subquery()
            )
            for state in State
        )
    ).subquery()
    newest = func.max(latest.c.updated_s)
    grouped = select(latest.c.site, latest.c.served_model, newest).group_by(latest.c.site, latest.c.served_model)
    return grouped.order_by(newest.desc(), latest.c.site)


def fastest_of(ledger: Ledger, op: str, place: OpPlace, serving: InService, limit: int) -> tuple[Standing, ...]:
    """Of any state, whatever was measured; the fastest first."""
    statement = select(StandingRow).where(*_at(op, place), StandingRow.speedup > 0)
    ordered = statement.order_by(StandingRow.speedup.desc(), StandingRow.number.desc()).limit(limit)
    with ledger.reader.connect() as connection:
        return tuple(in_service(as_standing(row, row.share_of_time), serving) for row in connection.execute(ordered))


def best_win_of(ledger: Ledger, op: str, place: OpPlace, serving: InService) -> Standing | None:
    """The fastest kernel that passed its gates and was not found wrong since."""
    states = StandingRow.state.in_((State.SHIPPED.value, State.WON.value))
    # An expression, for which no index has an order: the op's wins are read, and not everybody's from the fastest on.
    by_speed = (StandingRow.speedup + 0.0).desc(), StandingRow.number.desc()
    with ledger.reader.connect() as connection:
        row = connection.execute(
            select(StandingRow).where(*_at(op, place), states).order_by(*by_speed).limit(1)
        ).first()
        return None if row is None else in_service(as_standing(row, row.share_of_time), serving)


def latest_wins_of(ledger: Ledger, op: str, place: OpPlace, limit: int) -> tuple[PastWin, ...]:
    """Kernels that passed their gates once, oldest first: of each state the latest, at most `limit`."""
    found: list[PastWin] = []
    columns = (
        StandingRow.candidate_id,
        StandingRow.run_id,
        StandingRow.speedup,
        StandingRow.speedup_low,
        StandingRow.speedup_high,
        StandingRow.proposed_s,
    )
    with ledger.reader.connect() as connection:
        for state in (State.SHIPPED, State.WON, State.RETRACTED):
            statement = select(*columns).where(*_at(op, place), StandingRow.state == state.value)
            rows = connection.execute(
                statement.order_by(StandingRow.updated_s.desc(), StandingRow.number.desc()).limit(limit)
            )
            found.extend(
                PastWin(candidate_id, run_id, state, speedup, Interval(low, high), datetime.fromtimestamp(at_s, UTC))
                for candidate_id, run_id, speedup, low, high, at_s in rows
            )
    return tuple(sorted(found, key=lambda win: win.proposed_at))


def ancestors_of(ledger: Ledger, standing: Standing, serving: InService, most: int) -> tuple[Standing, ...]:
    """Kernels that the one came from, parents first, as far as they were judged for its op on its device."""
    known: dict[str, Standing] = {}
    asked = {standing.candidate_id}
    generation = [parent for parent in standing.parents[:_MOST_PARENTS] if parent not in asked]
    with ledger.reader.connect() as connection:
        for _ in range(_MOST_GENERATIONS):
            wanted = list(dict.fromkeys(generation))[: most - len(known)]
            if not wanted:
                break
            asked.update(wanted)
            found = _newest_of(connection, wanted, standing, serving)
            known |= found
            parents = (parent for each in found.values() for parent in each.parents[:_MOST_PARENTS])
            generation = [parent for parent in parents if parent not in asked]
    return tuple(known.values())


def latest_measurement(ledger: Ledger, task_id: str, candidate_id: str) -> Measurement | None:
    """What the standing's figures are of: the newest of a run or a person, else its screening."""
    with ledger.reader.connect() as connection:

        def newest(kind: type[EvaluationRow | MeasurementRow | AttemptRow]) -> tuple[datetime, dict[str, Any]] | None:
            # Looked at here and not by the database: PostgreSQL looks into no JSON that holds a NUL. One by one: mostly
            # it is the first, and they are long.
            for skipped in range(_LOOKED_AT_FOR_A_MEASUREMENT):
                place = {"task_id": task_id, "candidate_id": candidate_id, "skipped": skipped}
                row = connection.execute(_newest_record(kind), place).first()
                if row is None:
                    return None
                measured = row.record if kind is MeasurementRow else row.record["measurement"]
                if measured is not None:
                    return in_utc(row.recorded_at), measured
            return None

        known = [found for kind in (EvaluationRow, MeasurementRow) if (found := newest(kind)) is not None]
        known = known or [found for found in [newest(AttemptRow)] if found is not None]
    return Measurement.model_validate(max(known, key=itemgetter(0))[1]) if known else None


@functools.cache
def _newest_record(kind: type[EvaluationRow | MeasurementRow | AttemptRow]) -> Select[datetime, dict[str, Any]]:
    at = kind.task_id == bindparam("task_id"), kind.candidate_id == bindparam("candidate_id")
    newest = select(kind.recorded_at, kind.record).where(*at).order_by(kind.sequence.desc())
    return newest.limit(1).offset(bindparam("skipped"))


def shares_of(ledger: Ledger, task_id: str) -> Mapping[str, float]:
    """Shares of device time that the task takes, by workload class; "" is all traffic."""
    shares = select(TaskShareRow.workload_class, TaskShareRow.share).where(TaskShareRow.task_id == task_id)
    with ledger.reader.connect() as connection:
        return dict(connection.execute(shares.order_by(TaskShareRow.workload_class)).all())


def latest_task_id(ledger: Ledger, op: str, place: OpPlace) -> str | None:
    """Of kernels that were judged lately, the one judged last; None: none was judged at the place."""
    lately = select(StandingRow.task_id, StandingRow.updated_s)
    with ledger.reader.connect() as connection:
        found = [
            row
            for state in State
            for row in connection.execute(
                lately.where(*_at(op, place), StandingRow.state == state.value)
                .order_by(StandingRow.updated_s.desc(), StandingRow.number.desc())
                .limit(1)
            )
        ]
    return max(found, key=lambda row: row[1])[0] if found else None


def _at(op: str, place: OpPlace) -> Sequence[ColumnElement[bool]]:
    return (
        StandingRow.op == op,
        StandingRow.device_id == place.device_id,
        StandingRow.site == place.site,
        StandingRow.served_model == place.served_model,
    )


def _newest_of(
    connection: Connection, candidate_ids: Sequence[str], standing: Standing, serving: InService
) -> dict[str, Standing]:
    """One of each candidate, by its id."""
    asked = {"candidate_ids": candidate_ids, "op": standing.op, "device_id": standing.device_id}
    rows = connection.execute(_newest_standings(), asked)
    by_id = {row.candidate_id: in_service(as_standing(row, row.share_of_time), serving) for row in rows}
    return {candidate_id: by_id[candidate_id] for candidate_id in candidate_ids if candidate_id in by_id}


@functools.cache
def _newest_standings() -> Select[StandingRow]:
    newest = (
        select(func.max(StandingRow.number))
        .where(
            StandingRow.candidate_id.in_(bindparam("candidate_ids", expanding=True)),
            # Expressions, so that the index of ids is walked and not that of all that was tried for the op.
            StandingRow.op + "" == bindparam("op"),
            StandingRow.device_id + "" == bindparam("device_id"),
        )
        .group_by(StandingRow.candidate_id)
    )
    return select(StandingRow).where(StandingRow.number.in_(newest))
