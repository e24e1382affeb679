"""Cards: the memory's place in the ledger. Cards are added, never changed; finding one filters nothing."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import MemoryCardRow
from candidates.memory import Card
from candidates.op_class import classify
from candidates.task import KernelTask

_NEWEST = 64
"""So many are looked through for the largest effects."""


class Cards:
    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger

    def put(self, cards: Iterable[Card]) -> None:
        """A card that is there stays as it is."""
        for card in cards:
            row = MemoryCardRow(
                card_id=card.id,
                functions=card.op_class.functions,
                device_id=card.device_id,
                record=card.model_dump(mode="json"),
            )
            self._ledger.insert(row)

    def search(self, task: KernelTask, most: int = 8) -> tuple[Card, ...]:
        """Of the task's op class and device: the largest effects among the newest cards, without what is hidden in it.

        Of several cards about one pair of candidates the newest counts.
        """
        functions = classify(task).functions
        statement = (
            select(MemoryCardRow.record)
            .where(MemoryCardRow.functions == functions, MemoryCardRow.device_id == task.device_id)
            .order_by(MemoryCardRow.sequence.desc())
            .limit(_NEWEST)
        )
        newest: dict[tuple[str, str], Card] = {}
        with Session(self._ledger.reader) as session:
            for record in session.scalars(statement):
                card = Card.model_validate(record)
                newest.setdefault((card.before.candidate_id, card.after.candidate_id), card)
        # The sort is stable: of equal effects the newer comes first.
        largest = sorted(newest.values(), key=lambda card: card.effect, reverse=True)[:most]
        hidden = [workload.name for workload in task.hidden_workloads]
        return tuple(card.without(hidden) for card in largest)

    def newest(self, most: int) -> tuple[Card, ...]:
        """Of all op classes and devices."""
        statement = select(MemoryCardRow.record).order_by(MemoryCardRow.sequence.desc()).limit(most)
        with Session(self._ledger.reader) as session:
            return tuple(Card.model_validate(record) for record in session.scalars(statement))
