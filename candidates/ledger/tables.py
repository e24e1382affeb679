"""Tables of the ledger. A row is a fact: it is inserted once and never changed. `SpendAccountRow` alone is a balance,
and `PrunedBlobRow` follows what is there of blobs.

Each table holds the record as JSON, and beside it the columns that queries select by. On PostgreSQL too the JSON
is a text in ASCII (`json`; `jsonb` knows no NUL and orders keys anew), so that every record is read as it was written.
"""

from datetime import UTC, datetime
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    String,
    UniqueConstraint,
    event,
    func,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column
from sqlalchemy.sql import FromClause

NUMBER = BigInteger().with_variant(Integer, "sqlite")
"""SQLite counts up only what it calls INTEGER; it has 64 bits."""


class DoesNotFit(ValueError):
    """A text is too long for its column, or holds a NUL; the message names the column."""


class Table(DeclarativeBase):
    type_annotation_map = {dict[str, Any]: JSON}  # noqa: RUF012  (SQLAlchemy's own idiom)


@event.listens_for(Table, "init", propagate=True)
def _require_fit(row: Table, _: Any, values: dict[str, Any]) -> None:
    require_fit(row.__table__, values)


def require_fit(table: FromClause, values: dict[str, Any]) -> None:
    """Raises DoesNotFit for what PostgreSQL would refuse, on SQLite too; texts within a record may be any."""
    for column in table.columns:
        text = values.get(column.name)
        if not isinstance(column.type, String) or not isinstance(text, str):
            continue
        shown, most = ascii(text if len(text) <= 80 else f"{text[:80]}..."), column.type.length
        if most is not None and len(text) > most:
            raise DoesNotFit(f"{column} of the ledger takes {most} characters, not the {len(text)} of {shown}")
        if "\0" in text:
            raise DoesNotFit(f"{column} of the ledger takes no NUL character: {shown}")


class Fact(Table):
    """What every fact has: its order, its time, its record."""

    __abstract__ = True

    sequence: Mapped[int] = mapped_column(
        NUMBER,
        primary_key=True,
        autoincrement=True,
    )
    recorded_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())
    record: Mapped[dict[str, Any]]


def in_utc(moment: datetime) -> datetime:
    """SQLite gives UTC without a zone, PostgreSQL the zone of its session."""
    return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)


class RunRow(Fact):
    __tablename__ = "runs"
    run_id: Mapped[str] = mapped_column(String(64), unique=True)
    request_digest: Mapped[str] = mapped_column(String(64), index=True)
    """Equal for equal requests: an interrupted run is found again by it."""


class RunEndRow(Fact):
    __tablename__ = "run_ends"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"), unique=True)


class ProgressRow(Fact):
    __tablename__ = "progress"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"), index=True)


class RunFailureRow(Fact):
    """A run could not go on; it may have been gone on with since, and failed again."""

    __tablename__ = "run_failures"
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"), index=True)


class NightRow(Fact):
    """A night of a schedule: the traffic that it found, and the run that this became, or why it became none."""

    __tablename__ = "nights"
    night_id: Mapped[str] = mapped_column(String(64), unique=True)
    """Also of its run."""
    schedule_id: Mapped[str] = mapped_column(String(64), index=True)
    outcome: Mapped[str] = mapped_column(String(16))


class StageRow(Fact):
    """Result of a stage of a run that is one per run: `replay`, `ranking`, `live_checks`, and `end_to_end` or
    `build_failure`."""

    __tablename__ = "stages"
    __table_args__ = (UniqueConstraint("run_id", "stage"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    stage: Mapped[str] = mapped_column(String(32))


class DeviceRow(Fact):
    __tablename__ = "devices"
    device_id: Mapped[str] = mapped_column(String(96), unique=True)


class TaskRow(Fact):
    __tablename__ = "tasks"
    task_id: Mapped[str] = mapped_column(String(64), unique=True)
    op: Mapped[str] = mapped_column(String(256), index=True)


class CandidateRow(Fact):
    __tablename__ = "candidates"
    candidate_id: Mapped[str] = mapped_column(String(64), unique=True)


class AttemptRow(Fact):
    """A proposal, its verdict and its screening, within one run."""

    __tablename__ = "attempts"
    __table_args__ = (UniqueConstraint("run_id", "task_id", "candidate_id"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))
    outcome: Mapped[str] = mapped_column(String(32))


class ArtifactRow(Fact):
    """What a candidate was built into for a task on a device; the bytes are a blob, that may have been pruned since."""

    __tablename__ = "artifacts"
    __table_args__ = (UniqueConstraint("task_id", "candidate_id", "blob", name="artifacts_of_candidate"),)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))
    blob: Mapped[str] = mapped_column(String(64))


class PrunedBlobRow(Table):
    """A blob that facts name and retention let go. The row goes when the blob is put back."""

    __tablename__ = "pruned_blobs"
    blob: Mapped[str] = mapped_column(String(64), primary_key=True)
    recorded_at: Mapped[datetime] = mapped_column(DateTime(timezone=True), server_default=func.now())


class MeasurementRow(Fact):
    __tablename__ = "measurements"
    __table_args__ = (UniqueConstraint("run_id", "task_id", "candidate_id", "stage"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))
    stage: Mapped[str] = mapped_column(String(16))
    speedup: Mapped[float] = mapped_column(Float)


class SearchEndRow(Fact):
    """Why the search for one op ended, and with which winner if any."""

    __tablename__ = "search_ends"
    __table_args__ = (UniqueConstraint("run_id", "task_id"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))


class CompilerReportRow(Fact):
    """What a candidate's compiler made of it for a task."""

    __tablename__ = "compiler_reports"
    __table_args__ = (UniqueConstraint("task_id", "candidate_id"),)
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))


class EvaluationRow(Fact):
    """A candidate that a person had judged or measured, outside of any run; the latest row is the word on it."""

    __tablename__ = "evaluations"
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"), index=True)
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))


class ProblemRow(Fact):
    """What a task was imported from."""

    __tablename__ = "problems"
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"), unique=True)


class PromotionRow(Fact):
    __tablename__ = "promotions"
    __table_args__ = (UniqueConstraint("run_id", "task_id", "candidate_id"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    task_id: Mapped[str] = mapped_column(ForeignKey("tasks.task_id"))
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"))


class BuildRow(Fact):
    __tablename__ = "builds"
    __table_args__ = (UniqueConstraint("run_id", "build_id"),)
    run_id: Mapped[str] = mapped_column(ForeignKey("runs.run_id"))
    build_id: Mapped[str] = mapped_column(String(64), index=True)


class RetractionRow(Fact):
    """A flaw that was found in a kernel later; its evidence stays."""

    __tablename__ = "retractions"
    candidate_id: Mapped[str] = mapped_column(ForeignKey("candidates.candidate_id"), index=True)


class ApprovalRow(Fact):
    """A person or a setting made a build live, or moved back to it."""

    __tablename__ = "approvals"
    build_id: Mapped[str] = mapped_column(String(64), index=True)


class PullRequestRow(Fact):
    """Something that was done with a win's pull request, or seen of it; a change of its state is a new row."""

    __tablename__ = "pull_requests"
    repository: Mapped[str] = mapped_column(String(512), index=True)
    win: Mapped[str] = mapped_column(String(64), index=True)
    build_id: Mapped[str] = mapped_column(String(64), index=True)
    event: Mapped[str] = mapped_column(String(16))


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


class MemoryCardRow(Fact):
    """What a change to a kernel did to its speed, as a run measured it."""

    __tablename__ = "memory_cards"
    card_id: Mapped[str] = mapped_column(String(64), unique=True)
    functions: Mapped[str] = mapped_column(String(16), index=True)
    """Digest of the op class."""
    device_id: Mapped[str] = mapped_column(String(96))


class ModelCallRow(Fact):
    """A call to a language model, reserved before it is sent; a call whose answer was lost is tried again."""

    __tablename__ = "model_calls"
    __table_args__ = (UniqueConstraint("call_id", "try_number"),)
    call_id: Mapped[str] = mapped_column(String(256))
    try_number: Mapped[int] = mapped_column(Integer)


class ModelCallEndRow(Fact):
    __tablename__ = "model_call_ends"
    __table_args__ = (UniqueConstraint("call_id", "try_number"),)
    call_id: Mapped[str] = mapped_column(String(256))
    try_number: Mapped[int] = mapped_column(Integer)
    outcome: Mapped[str] = mapped_column(String(32))


class SpendStopRow(Fact):
    """The first call that a cap of an account did not allow."""

    __tablename__ = "spend_stops"
    __table_args__ = (UniqueConstraint("account_id", "limit_name"),)
    account_id: Mapped[str] = mapped_column(String(256))
    limit_name: Mapped[str] = mapped_column(String(16))


class SpendAccountRow(Table):
    """A balance: caps (None: not capped), and what calls took or have reserved.

    The sum could be read from the calls; it is kept so that comparing it with the cap and raising it is one statement.
    """

    __tablename__ = "spend_accounts"
    account_id: Mapped[str] = mapped_column(String(256), primary_key=True)
    cap_nano_usd: Mapped[int | None] = mapped_column(BigInteger)
    cap_tokens: Mapped[int | None] = mapped_column(BigInteger)
    cap_milliseconds: Mapped[int | None] = mapped_column(BigInteger)
    cap_calls: Mapped[int | None] = mapped_column(BigInteger)
    used_nano_usd: Mapped[int] = mapped_column(BigInteger, default=0)
    used_tokens: Mapped[int] = mapped_column(BigInteger, default=0)
    used_milliseconds: Mapped[int] = mapped_column(BigInteger, default=0)
    used_calls: Mapped[int] = mapped_column(BigInteger, default=0)


for kind in (AttemptRow, MeasurementRow, PromotionRow, EvaluationRow):
    Index(f"{kind.__tablename__}_of_candidate", kind.candidate_id, kind.task_id)
Index("attempts_by_task", AttemptRow.run_id, AttemptRow.task_id)
Index("search_ends_of_task", SearchEndRow.task_id)
