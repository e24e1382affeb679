"""check_ledger, check_blobs: whether a ledger's rows fit together, and the blobs that they name are there and whole.

They change nothing, and nobody waits for them.
"""

from pathlib import Path
from tempfile import TemporaryDirectory

from sqlalchemy import ColumnElement, Engine, ForeignKey, Select, func, select
from sqlalchemy import Table as SqlTable
from sqlalchemy.orm import Session

from candidates.ledger import standings
from candidates.ledger.blobs import BlobError, BlobStore
from candidates.ledger.copy_ledger import copy_ledger
from candidates.ledger.database import open_database
from candidates.ledger.named_blobs import blobs_of_dialogue, named_blobs, transcripts
from candidates.ledger.standing_rows import FoundWrongRow, StandingRow, TaskShareRow
from candidates.ledger.tables import PrunedBlobRow, Table
from candidates.record import Record

MOST_SHOWN = 20


class LedgerState(Record):
    rows: dict[str, int]
    """By table."""
    orphans: tuple[str, ...]
    """Rows that name others which are not there, by table."""
    stale: tuple[str, ...]
    """Tables made from facts that are not what the facts give; empty where there are orphans: nothing was compared."""

    @property
    def is_whole(self) -> bool:
        return not (self.orphans or self.stale)


class BlobsState(Record):
    named: int
    """Different blobs that facts and dialogues name."""
    pruned: int
    """Of them, by retention."""
    faults: int
    shown: tuple[str, ...]
    """The first of the faults."""


def check_ledger(engine: Engine, folder: Path) -> LedgerState:
    """In `folder` a copy is made, and removed: what the facts give is computed there."""
    orphans = _orphans(engine)
    folder.mkdir(parents=True, exist_ok=True)
    if orphans:
        return LedgerState(rows=_counts(engine), orphans=orphans, stale=())
    with TemporaryDirectory(prefix=".check-", dir=folder) as place:
        copy = open_database(f"sqlite:///{place}/ledger.sqlite", standings.rebuild)
        rows = dict(copy_ledger(engine, copy))
        kept = _made_from_facts(copy)
        with Session(copy) as session, session.begin():
            standings.rebuild(session)
        made = _made_from_facts(copy)
        copy.dispose()
    stale = tuple(name for name in kept if kept[name] != made[name])
    return LedgerState(rows=rows, orphans=(), stale=stale)


def check_blobs(engine: Engine, blobs: BlobStore) -> BlobsState:
    """Reads every byte of them."""
    with Session(engine) as session:
        dialogues = set(transcripts(session))
        named = set(named_blobs(session))
        pruned = set(session.scalars(select(PrunedBlobRow.blob)))
    faults = []
    for digest in sorted(dialogues):
        try:
            named.update(blobs_of_dialogue(blobs, digest))
        except BlobError:
            continue  # it is among the named, and told there where it was not pruned
        except ValueError:
            faults.append(f"{digest} is named as a dialogue and is none")
    for digest in sorted(named - pruned):
        try:
            blobs.get(digest)
        except BlobError as error:
            faults.append(str(error))
    return BlobsState(
        named=len(named), pruned=len(named & pruned), faults=len(faults), shown=tuple(faults[:MOST_SHOWN])
    )


def _orphans(engine: Engine) -> tuple[str, ...]:
    found = []
    with engine.connect() as connection:
        for table in Table.metadata.sorted_tables:
            for key in sorted(table.foreign_keys, key=str):
                if lost := connection.scalar(_lost(table, key)):
                    found.append(f"{table.name}: {lost} without {key.target_fullname}")
    return tuple(found)


def _lost(table: SqlTable, key: ForeignKey) -> Select[int]:
    parent = key.column
    return (
        select(func.count())
        .select_from(table.outerjoin(parent.table, key.parent == parent))
        .where(key.parent.is_not(None), parent.is_(None))
    )


def _counts(engine: Engine) -> dict[str, int]:
    with engine.connect() as connection:
        return {
            table.name: connection.scalars(select(func.count()).select_from(table)).one()
            for table in Table.metadata.sorted_tables
        }


def _made_from_facts(engine: Engine) -> dict[str, list[tuple[object, ...]]]:
    """Their rows but for the numbers of the lines, which tell when each was first made."""
    with engine.connect() as connection:
        return {
            kind.__tablename__: sorted((tuple(row) for row in connection.execute(select(*_compared(kind)))), key=repr)
            for kind in (StandingRow, FoundWrongRow, TaskShareRow)
        }


def _compared(kind: type[Table]) -> list[ColumnElement[object]]:
    return [column for column in kind.__table__.columns if column.name != "number"]
