"""PullRequestFacts: the place of pull requests in the ledger. Facts are added; what they come to is read elsewhere."""

from sqlalchemy import ColumnElement, select, true
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import BuildRow, PullRequestRow
from candidates.pull_requests.facts import PullRequestFact


class PullRequestFacts:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def add(self, fact: PullRequestFact) -> None:
        """One that repeats the latest fact of its win adds nothing."""
        known = self.of(fact.repository, fact.win)
        if known and known[-1] == fact:
            return
        self._ledger.insert(
            PullRequestRow(
                repository=fact.repository,
                win=fact.win,
                build_id=fact.build_id,
                event=fact.event.value,
                record=fact.model_dump(mode="json"),
            )
        )

    def of(self, repository: str, win: str | None = None) -> tuple[PullRequestFact, ...]:
        """Oldest first; `win` None: all."""
        return self._read(PullRequestRow.repository == repository, true() if win is None else PullRequestRow.win == win)

    def of_build(self, build_id: str) -> tuple[PullRequestFact, ...]:
        """Oldest first, of whatever repository."""
        return self._read(PullRequestRow.build_id == build_id)

    def _read(self, *conditions: ColumnElement[bool]) -> tuple[PullRequestFact, ...]:
        statement = select(PullRequestRow.record).where(*conditions).order_by(PullRequestRow.sequence)
        with Session(self._ledger.reader) as session:
            return tuple(PullRequestFact.model_validate(record) for record in session.scalars(statement))

    def runs_with_builds(self) -> tuple[tuple[str, str], ...]:
        """Ids of runs and of what they built, newest first."""
        with Session(self._ledger.reader) as session:
            rows = session.execute(select(BuildRow.run_id, BuildRow.build_id).order_by(BuildRow.sequence.desc()))
            return tuple((run_id, build_id) for run_id, build_id in rows)
