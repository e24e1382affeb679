"""Tables of what webhooks were told. Their rows are facts, as those of `tables`."""

from sqlalchemy import Integer, String, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from candidates.ledger.tables import Fact


class WebhookPositionRow(Fact):
    """How far a webhook's target is: what lies before is settled, or from before it was configured."""

    __tablename__ = "webhook_positions"
    __table_args__ = (UniqueConstraint("target", "number"),)
    target: Mapped[str] = mapped_column(String(64))
    number: Mapped[int] = mapped_column(Integer)


class WebhookAttemptRow(Fact):
    """An attempt to tell a target of an event, claimed before it is posted: of two processes one posts."""

    __tablename__ = "webhook_attempts"
    __table_args__ = (UniqueConstraint("target", "event_id", "attempt"),)
    target: Mapped[str] = mapped_column(String(64))
    event_id: Mapped[str] = mapped_column(String(128))
    attempt: Mapped[int] = mapped_column(Integer)


class WebhookDeliveryRow(Fact):
    """How an attempt ended."""

    __tablename__ = "webhook_deliveries"
    __table_args__ = (UniqueConstraint("target", "event_id", "attempt"),)
    target: Mapped[str] = mapped_column(String(64))
    event_id: Mapped[str] = mapped_column(String(128))
    attempt: Mapped[int] = mapped_column(Integer)
    outcome: Mapped[str] = mapped_column(String(16))
