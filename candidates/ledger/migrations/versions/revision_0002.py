"""Blobs are pruned: which ones is kept, and what was pruned may be built anew, also to other bytes."""

from alembic import op
from sqlalchemy import JSON, BigInteger, Column, DateTime, ForeignKey, Integer, MetaData, String, Table, func

revision = "0002"
down_revision = "0001"

_ARTIFACTS = Table(
    "artifacts",
    MetaData(),
    Column("sequence", BigInteger().with_variant(Integer, "sqlite"), primary_key=True, autoincrement=True),
    Column("recorded_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    Column("record", JSON, nullable=False),
    Column("task_id", String(64), ForeignKey("tasks.task_id"), nullable=False),
    Column("candidate_id", String(64), ForeignKey("candidates.candidate_id"), nullable=False),
    Column("blob", String(64), nullable=False),
)
"""Without the constraint that goes: SQLite, which has no name for it, makes the table anew."""


def upgrade() -> None:
    op.create_table(
        "pruned_blobs",
        Column("blob", String(64), primary_key=True),
        Column("recorded_at", DateTime(timezone=True), server_default=func.now(), nullable=False),
    )
    with op.batch_alter_table("artifacts", copy_from=_ARTIFACTS) as artifacts:
        if op.get_bind().dialect.name == "postgresql":
            artifacts.drop_constraint("artifacts_task_id_candidate_id_key", type_="unique")
        artifacts.create_unique_constraint("artifacts_of_candidate", ["task_id", "candidate_id", "blob"])
