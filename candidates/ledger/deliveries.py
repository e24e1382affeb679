"""Deliveries: what a webhook's target was told, and how each attempt ended. When to try again is decided elsewhere."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import islice
from typing import Annotated, Literal

from pydantic import Field, TypeAdapter
from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.events import Positions
from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import WebhookAttemptRow, WebhookDeliveryRow, WebhookPositionRow
from candidates.record import Record


class Delivered(Record):
    outcome: Literal["delivered"] = "delivered"
    message: str


class Failed(Record):
    """It is to be tried again."""

    outcome: Literal["failed"] = "failed"
    message: str
    retry_at: datetime


class GivenUp(Record):
    outcome: Literal["given_up"] = "given_up"
    message: str


class Gone(Record):
    """The target wants no more of anything."""

    outcome: Literal["gone"] = "gone"
    message: str


Outcome = Annotated[Delivered | Failed | GivenUp | Gone, Field(discriminator="outcome")]
_OUTCOME: TypeAdapter[Outcome] = TypeAdapter(Outcome)


class Claim(Record):
    at: datetime
    """By the clock of the process that posts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LastAttempt:
    """The last attempt at an event."""

    attempt: int
    claimed_at: datetime
    outcome: Outcome | None
    """None: it is being posted, or its process was killed."""


class Deliveries:
    def __init__(self, ledger: Ledger, target: str) -> None:
        """`target`: digest of an address."""
        self._ledger, self._target = ledger, target

    def position(self, start: Positions) -> Positions:
        """Where the target is; `start`, recorded, where it was never heard of before."""
        newest = select(WebhookPositionRow.record).where(WebhookPositionRow.target == self._target)
        newest = newest.order_by(WebhookPositionRow.number.desc()).limit(1)
        for _ in range(2):
            with Session(self._ledger.reader) as session:
                record = session.scalars(newest).first()
            if record is not None:
                return Positions.model_validate(record)
            self._ledger.insert(WebhookPositionRow(target=self._target, number=0, record=start.model_dump(mode="json")))
        raise RuntimeError("a position was recorded and is not there")

    def advance(self, position: Positions) -> None:
        """All events up to here are settled."""
        numbers = select(WebhookPositionRow.number).where(WebhookPositionRow.target == self._target)
        with Session(self._ledger.reader) as session:
            last = session.scalars(numbers.order_by(WebhookPositionRow.number.desc())).first()
        number = 0 if last is None else last + 1
        self._ledger.insert(
            WebhookPositionRow(target=self._target, number=number, record=position.model_dump(mode="json"))
        )

    def is_gone(self) -> bool:
        gone = select(WebhookDeliveryRow.sequence).where(
            WebhookDeliveryRow.target == self._target, WebhookDeliveryRow.outcome == "gone"
        )
        with Session(self._ledger.reader) as session:
            return session.scalars(gone).first() is not None

    def last_attempts(self, event_ids: Iterable[str]) -> dict[str, LastAttempt]:
        """By event; without those that were never tried."""
        found: dict[str, LastAttempt] = {}
        with Session(self._ledger.reader) as session:
            for some in _in_groups(event_ids):
                ended = select(WebhookDeliveryRow).where(
                    WebhookDeliveryRow.target == self._target, WebhookDeliveryRow.event_id.in_(some)
                )
                outcomes = {(row.event_id, row.attempt): row.record for row in session.scalars(ended)}
                claimed = select(WebhookAttemptRow).where(
                    WebhookAttemptRow.target == self._target, WebhookAttemptRow.event_id.in_(some)
                )
                for row in session.scalars(claimed.order_by(WebhookAttemptRow.attempt)):
                    record = outcomes.get((row.event_id, row.attempt))
                    found[row.event_id] = LastAttempt(
                        attempt=row.attempt,
                        claimed_at=Claim.model_validate(row.record).at,
                        outcome=None if record is None else _OUTCOME.validate_python(record),
                    )
        return found

    def claim(self, event_id: str, attempt: int, at: datetime) -> bool:
        """False: another process makes this attempt."""
        record = Claim(at=at).model_dump(mode="json")
        return self._ledger.insert(
            WebhookAttemptRow(target=self._target, event_id=event_id, attempt=attempt, record=record)
        )

    def settle(self, event_id: str, attempt: int, outcome: Outcome) -> None:
        """How a claimed attempt ended; the first word stays."""
        self._ledger.insert(
            WebhookDeliveryRow(
                target=self._target,
                event_id=event_id,
                attempt=attempt,
                outcome=outcome.outcome,
                record=outcome.model_dump(mode="json"),
            )
        )


def _in_groups(names: Iterable[str], size: int = 500) -> Iterator[list[str]]:
    """Databases bound how many values a statement may name."""
    rest = iter(names)
    while some := list(islice(rest, size)):
        yield some
