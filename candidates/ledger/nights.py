"""Nights: the place of nightly runs in the ledger."""

from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.run_states import Running, RunStates
from candidates.ledger.tables import NightRow, RunEndRow, RunRow
from candidates.nightly import Night

_UNFINISHED = 10
"""So many that did not end are looked at: those before them failed or were given up long ago."""


class Nights:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(self, night: Night) -> Night:
        """What is recorded of this night, which is what was said of it first."""
        self._ledger.insert(
            NightRow(
                night_id=night.id,
                schedule_id=night.schedule.id,
                outcome=night.outcome.kind,
                record=night.model_dump(mode="json"),
            )
        )
        recorded = self.find(night.id)
        if recorded is None:
            raise RuntimeError(f"night {night.id} was recorded and is not there")
        return recorded

    def find(self, night_id: str) -> Night | None:
        return next(iter(self._read(select(NightRow).where(NightRow.night_id == night_id))), None)

    def with_ended_run(self, schedule_id: str) -> tuple[Night, ...]:
        """Oldest first: their traffic was used. That of a run which did not come to its end is new still."""
        ended = select(NightRow).join(RunEndRow, RunEndRow.run_id == NightRow.night_id)
        return self._read(ended.where(NightRow.schedule_id == schedule_id).order_by(NightRow.sequence))

    def latest(self, schedule_id: str, limit: int) -> tuple[Night, ...]:
        """Newest first."""
        of_schedule = select(NightRow).where(NightRow.schedule_id == schedule_id)
        return self._read(of_schedule.order_by(NightRow.sequence.desc()).limit(limit))

    def going_on_before(self, night: Night) -> Night | None:
        """One of its schedule whose run was opened before that of this night, and goes on."""
        opened = select(RunRow.sequence).where(RunRow.run_id == night.id).scalar_subquery()
        earlier = (
            select(NightRow)
            .join(RunRow, RunRow.run_id == NightRow.night_id)
            .outerjoin(RunEndRow, RunEndRow.run_id == RunRow.run_id)
            .where(NightRow.schedule_id == night.schedule.id, RunRow.sequence < opened, RunEndRow.run_id.is_(None))
            .order_by(RunRow.sequence.desc())
            .limit(_UNFINISHED)
        )
        nights = {each.id: each for each in self._read(earlier)}
        runs = [run for night_id in nights if (run := self._ledger.run(night_id)) is not None]
        states = RunStates(self._ledger).of(runs)
        return next((nights[run.run_id] for run in runs if isinstance(states[run.run_id], Running)), None)

    def without_run_before(self, night: Night, limit: int) -> tuple[Night, ...]:
        """Newest first: those between it and the last night before it that had a run."""
        this = select(NightRow.sequence).where(NightRow.night_id == night.id).scalar_subquery()
        earlier = select(NightRow).where(NightRow.schedule_id == night.schedule.id, NightRow.sequence < this)
        found = []
        for each in self._read(earlier.order_by(NightRow.sequence.desc()).limit(limit)):
            if each.outcome.kind == "ran":
                break
            found.append(each)
        return tuple(found)

    def _read(self, statement: Select[Any]) -> tuple[Night, ...]:
        with Session(self._ledger.reader) as session:
            return tuple(Night.model_validate(row.record) for row in session.scalars(statement))
