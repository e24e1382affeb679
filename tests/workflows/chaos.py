"""What a run left in its ledger, in a form that is the same for equal runs, and what of it still goes on."""

import contextlib
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import AttemptRow, Fact, ProgressRow, RunFailureRow

_TOLD_ANEW = {"wall_s", "at", "path"}
"""Of records: clocks and places."""
_NOT_COMPARED = (ProgressRow, RunFailureRow)
"""Lines for people, which are told again by a try that is made again."""


def picture_of(ledger: Ledger) -> dict[str, list[str]]:
    """Every fact of every table, those of one table sorted; attempts in their order within a task."""
    pictures: dict[str, list[str]] = {}
    with Session(ledger.reader) as session:
        for kind in Fact.__subclasses__():
            if kind in _NOT_COMPARED:
                continue
            numbers: dict[str, int] = defaultdict(int)
            lines = []
            for row in session.scalars(select(kind).order_by(kind.sequence)):
                columns = {c.name: getattr(row, c.name) for c in kind.__table__.columns if c.name not in _CLOCKED}
                columns["record"] = _without_clocks(columns["record"])
                if isinstance(row, AttemptRow):
                    numbers[row.task_id] += 1
                    columns["number"] = numbers[row.task_id]
                lines.append(json.dumps(columns, sort_keys=True))
            pictures[kind.__tablename__] = sorted(lines)
    return pictures


_CLOCKED = ("sequence", "recorded_at")


def _without_clocks(content: Any) -> Any:
    if isinstance(content, dict):
        return {name: _without_clocks(each) for name, each in content.items() if name not in _TOLD_ANEW}
    return [_without_clocks(each) for each in content] if isinstance(content, list) else content


def programs_of(folder: Path) -> list[str]:
    """Command lines of processes that were told of the folder, whoever started them."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            told = (process / "cmdline").read_bytes() + (process / "environ").read_bytes()
            if str(folder).encode() in told:
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace"))
    return found
