"""Nights of schedules: the traffic that each found, and what became of it."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, DateTime, Integer, String, UniqueConstraint, func

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    op.create_table(
        "nights",
        Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
        Column("recorded_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
        Column("record", JSON, nullable=False),
        Column("night_id", String(64), nullable=False),
        Column("schedule_id", String(64), nullable=False),
        Column("outcome", String(16), nullable=False),
        UniqueConstraint("night_id"),
    )
    op.create_index("ix_nights_schedule_id", "nights", ["schedule_id"])
