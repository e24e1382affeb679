"""Tables that are read from facts and can be made again from them: standings, and what share of traffic tasks take.

Unlike facts their rows change. Unknown figures are 0, which no known one is, so that every order has an index.
"""

from typing import Any

from sqlalchemy import JSON, Float, Index, Integer, String, Text, UniqueConstraint
from sqlalchemy.orm import Mapped, mapped_column

from candidates.ledger.tables import NUMBER, Table

_ORIGIN = ("served_model", "language", "agent", "endpoint")
_FILTERED = ("op", "device_id", *_ORIGIN)
"""At the end of every order's index: what few kernels are like is found without a look at the rows of all others."""


class StandingRow(Table):
    __tablename__ = "standings"
    __table_args__ = (
        UniqueConstraint("task_id", "candidate_id"),
        *(
            Index(f"standings_by_{column}", "state", column, "number", *_FILTERED)
            for column in ("updated_s", "speedup", "share_of_floor", "share_of_time", "end_to_end")
        ),
        Index("standings_of_op_by_speedup", "op", "device_id", "speedup", "number"),
        Index("standings_by_origin", *_ORIGIN),
        Index("standings_of_op_by_state", "op", "device_id", "state", "updated_s", "number"),
    )

    number: Mapped[int] = mapped_column(NUMBER, primary_key=True, autoincrement=True)
    task_id: Mapped[str] = mapped_column(String(64))
    candidate_id: Mapped[str] = mapped_column(String(64), index=True)
    op: Mapped[str] = mapped_column(String(256))
    site: Mapped[str] = mapped_column(Text)
    level: Mapped[str] = mapped_column(String(16))
    device_id: Mapped[str] = mapped_column(String(96))
    served_model: Mapped[str | None] = mapped_column(Text)
    language: Mapped[str] = mapped_column(String(16))
    agent: Mapped[str] = mapped_column(Text)
    endpoint: Mapped[str | None] = mapped_column(Text)
    parents: Mapped[list[Any]] = mapped_column(JSON)
    run_id: Mapped[str | None] = mapped_column(String(64), index=True)
    state: Mapped[str] = mapped_column(String(16))
    reason: Mapped[str] = mapped_column(Text)
    speedup: Mapped[float] = mapped_column(Float)
    speedup_low: Mapped[float] = mapped_column(Float)
    speedup_high: Mapped[float] = mapped_column(Float)
    pairs: Mapped[int] = mapped_column(Integer)
    stage: Mapped[str | None] = mapped_column(String(16))
    share_of_floor: Mapped[float] = mapped_column(Float)
    share_of_time: Mapped[float] = mapped_column(Float)
    end_to_end: Mapped[float] = mapped_column(Float)
    proposed_s: Mapped[float] = mapped_column(Float)
    """Seconds since 1970, as `updated_s`."""
    updated_s: Mapped[float] = mapped_column(Float)


class FoundWrongRow(Table):
    """A kernel that a run's look at the live build found wrong: the first word on it."""

    __tablename__ = "found_wrong"
    candidate_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    reason: Mapped[str] = mapped_column(Text)
    found_s: Mapped[float] = mapped_column(Float)
    """Seconds since 1970."""


class TaskShareRow(Table):
    """Of the device time of the traffic that the task was last seen in."""

    __tablename__ = "task_shares"
    __table_args__ = (Index("task_shares_by_class", "workload_class", "task_id"),)
    task_id: Mapped[str] = mapped_column(String(64), primary_key=True)
    workload_class: Mapped[str] = mapped_column(String(128), primary_key=True)
    """Empty: of all traffic."""
    share: Mapped[float] = mapped_column(Float)
