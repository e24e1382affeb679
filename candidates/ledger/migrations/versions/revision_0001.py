"""The schema as it was when revisions began; brings up ledgers from before, which had some of these tables."""

from alembic import op
from sqlalchemy import (
    INTEGER,
    JSON,
    BigInteger,
    Column,
    DateTime,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
    func,
    inspect,
)
from sqlalchemy.schema import SchemaItem
from sqlalchemy.types import TypeEngine

from candidates.ledger.schema import RevisionRefused

revision = "0001"
down_revision = None

_MADE_FROM_FACTS = ("standings", "task_shares", "found_wrong")
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_SCHEMA = MetaData()


def upgrade() -> None:
    # Their columns changed before there were revisions.
    for name in _MADE_FROM_FACTS:
        op.drop_table(name, if_exists=True)
    found = inspect(op.get_bind())
    there = set(found.get_table_names())
    for table in _SCHEMA.sorted_tables:
        if table.name not in there:
            table.create(op.get_bind())
            continue
        columns = {column["name"]: column["type"] for column in found.get_columns(table.name)}
        is_narrow = op.get_bind().dialect.name == "postgresql" and type(columns.get("sequence")) is INTEGER
        if is_narrow or set(columns) != set(table.columns.keys()):
            said = ", ".join(f"{name} {columns[name]}" for name in sorted(columns))
            raise RevisionRefused(
                f"the database cannot be made a ledger: its table {table.name} has other columns than a ledger's ever "
                f"had ({said}); name another database"
            )
        indexes = {index["name"] for index in found.get_indexes(table.name)}
        for index in sorted(table.indexes, key=lambda index: str(index.name)):
            if index.name not in indexes:
                index.create(op.get_bind())


def _text(name: str, length: int) -> Column[str]:
    return Column(name, String(length), nullable=False)


def _known(name: str, where: str) -> Column[str]:
    return Column(name, String(64), ForeignKey(where), nullable=False)


def _run() -> Column[str]:
    return _known("run_id", "runs.run_id")


def _task() -> Column[str]:
    return _known("task_id", "tasks.task_id")


def _candidate() -> Column[str]:
    return _known("candidate_id", "candidates.candidate_id")


def _number(name: str, kind: type[TypeEngine[float]] | type[TypeEngine[int]] = Integer) -> Column[float]:
    return Column(name, kind, nullable=False)


def _words(name: str) -> Column[str]:
    return Column(name, Text, nullable=False)


def _fact(name: str, *rest: SchemaItem) -> None:
    Table(
        name,
        _SCHEMA,
        Column("sequence", _NUMBER, primary_key=True, autoincrement=True),
        Column("recorded_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
        Column("record", JSON, nullable=False),
        *rest,
    )


_fact("runs", _text("run_id", 64), _text("request_digest", 64), UniqueConstraint("run_id"),
      Index("ix_runs_request_digest", "request_digest"))  # fmt: skip
_fact("run_ends", _run(), UniqueConstraint("run_id"))
_fact("progress", _run(), Index("ix_progress_run_id", "run_id"))
_fact("run_failures", _run(), Index("ix_run_failures_run_id", "run_id"))
_fact("stages", _run(), _text("stage", 32), UniqueConstraint("run_id", "stage"))
_fact("devices", _text("device_id", 96), UniqueConstraint("device_id"))
_fact("tasks", _text("task_id", 64), _text("op", 256), UniqueConstraint("task_id"), Index("ix_tasks_op", "op"))
_fact("candidates", _text("candidate_id", 64), UniqueConstraint("candidate_id"))
_fact("attempts", _run(), _task(), _candidate(), _text("outcome", 32),
      UniqueConstraint("run_id", "task_id", "candidate_id"), Index("attempts_by_task", "run_id", "task_id"),
      Index("attempts_of_candidate", "candidate_id", "task_id"))  # fmt: skip
_fact("artifacts", _task(), _candidate(), _text("blob", 64), UniqueConstraint("task_id", "candidate_id"))
_fact("measurements", _run(), _task(), _candidate(), _text("stage", 16), _number("speedup", Float),
      UniqueConstraint("run_id", "task_id", "candidate_id", "stage"),
      Index("measurements_of_candidate", "candidate_id", "task_id"))  # fmt: skip
_fact("search_ends", _run(), _task(), UniqueConstraint("run_id", "task_id"), Index("search_ends_of_task", "task_id"))
_fact("compiler_reports", _task(), _candidate(), UniqueConstraint("task_id", "candidate_id"))
_fact("evaluations", _task(), _candidate(), Index("ix_evaluations_task_id", "task_id"),
      Index("evaluations_of_candidate", "candidate_id", "task_id"))  # fmt: skip
_fact("problems", _task(), UniqueConstraint("task_id"))
_fact("promotions", _run(), _task(), _candidate(), UniqueConstraint("run_id", "task_id", "candidate_id"),
      Index("promotions_of_candidate", "candidate_id", "task_id"))  # fmt: skip
_fact("builds", _run(), _text("build_id", 64), UniqueConstraint("run_id", "build_id"),
      Index("ix_builds_build_id", "build_id"))  # fmt: skip
_fact("retractions", _candidate(), Index("ix_retractions_candidate_id", "candidate_id"))
_fact("approvals", _text("build_id", 64), Index("ix_approvals_build_id", "build_id"))
_fact("pull_requests", _text("repository", 512), _text("win", 64), _text("build_id", 64), _text("event", 16),
      *(Index(f"ix_pull_requests_{column}", column) for column in ("repository", "win", "build_id")))  # fmt: skip
_fact("webhook_positions", _text("target", 64), _number("number"), UniqueConstraint("target", "number"))
_fact("webhook_attempts", _text("target", 64), _text("event_id", 128), _number("attempt"),
      UniqueConstraint("target", "event_id", "attempt"))  # fmt: skip
_fact("webhook_deliveries", _text("target", 64), _text("event_id", 128), _number("attempt"), _text("outcome", 16),
      UniqueConstraint("target", "event_id", "attempt"))  # fmt: skip
_fact("memory_cards", _text("card_id", 64), _text("functions", 16), _text("device_id", 96),
      UniqueConstraint("card_id"), Index("ix_memory_cards_functions", "functions"))  # fmt: skip
_fact("model_calls", _text("call_id", 256), _number("try_number"), UniqueConstraint("call_id", "try_number"))
_fact("model_call_ends", _text("call_id", 256), _number("try_number"), _text("outcome", 32),
      UniqueConstraint("call_id", "try_number"))  # fmt: skip
_fact("spend_stops", _text("account_id", 256), _text("limit_name", 16), UniqueConstraint("account_id", "limit_name"))
Table(
    "spend_accounts",
    _SCHEMA,
    Column("account_id", String(256), primary_key=True),
    *(Column(f"cap_{what}", BigInteger) for what in ("nano_usd", "tokens", "milliseconds", "calls")),
    *(_number(f"used_{what}", BigInteger) for what in ("nano_usd", "tokens", "milliseconds", "calls")),
)

_ORIGIN = ("served_model", "language", "agent", "endpoint")
Table(
    "standings",
    _SCHEMA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    _text("task_id", 64),
    _text("candidate_id", 64),
    _text("op", 256),
    _words("site"),
    _text("level", 16),
    _text("device_id", 96),
    Column("served_model", Text),
    _text("language", 16),
    _words("agent"),
    Column("endpoint", Text),
    Column("parents", JSON, nullable=False),
    Column("run_id", String(64)),
    _text("state", 16),
    _words("reason"),
    _number("speedup", Float),
    _number("speedup_low", Float),
    _number("speedup_high", Float),
    _number("pairs"),
    Column("stage", String(16)),
    _number("share_of_floor", Float),
    _number("share_of_time", Float),
    _number("end_to_end", Float),
    _number("proposed_s", Float),
    _number("updated_s", Float),
    UniqueConstraint("task_id", "candidate_id"),
    Index("ix_standings_candidate_id", "candidate_id"),
    Index("ix_standings_run_id", "run_id"),
    *(
        Index(f"standings_by_{column}", "state", column, "number", "op", "device_id", *_ORIGIN)
        for column in ("updated_s", "speedup", "share_of_floor", "share_of_time", "end_to_end")
    ),
    Index("standings_of_op_by_speedup", "op", "device_id", "speedup", "number"),
    Index("standings_by_origin", *_ORIGIN),
    Index("standings_of_op_by_state", "op", "device_id", "state", "updated_s", "number"),
)
Table(
    "found_wrong",
    _SCHEMA,
    Column("candidate_id", String(64), primary_key=True),
    _words("reason"),
    _number("found_s", Float),
)
Table(
    "task_shares",
    _SCHEMA,
    Column("task_id", String(64), primary_key=True),
    Column("workload_class", String(128), primary_key=True),
    _number("share", Float),
    Index("task_shares_by_class", "workload_class", "task_id"),
)
