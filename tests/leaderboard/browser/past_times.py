"""When what is in a past happened: facts are written now, and moved back."""

import os
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from sqlalchemy import text

from candidates.ledger.ledger import Ledger
from candidates.ledger.tables import Fact, Table
from candidates.serving_build.build import builds_folder
from candidates.serving_build.builds import BuildStore
from tests.leaderboard.browser.searched import Place

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
_TOOK = timedelta(seconds=390)
"""Every run, or so far."""


def back_date(place: Place, by: timedelta) -> None:
    """All that is known so far happened so much earlier."""
    with place.ledger.engine.begin() as connection:
        for table in _tables_of_facts():
            move = f"UPDATE {table} SET recorded_at = datetime(recorded_at, '-{int(by.total_seconds())} seconds')"
            connection.execute(text(move))
    builds = BuildStore(place.home)
    earlier = [
        each.model_copy(update={"at": (datetime.fromisoformat(each.at) - by).isoformat(timespec="seconds")})
        for each in builds.history()
    ]
    lines = "".join(f"{each.model_dump_json()}\n" for each in earlier)
    (builds_folder(place.home) / "approvals.jsonl").write_text(lines)
    for path in builds.paths():
        moment = path.stat().st_mtime - by.total_seconds()
        os.utime(path, (moment, moment))


def run_id_of(kind: str, ago: timedelta, number: int) -> str:
    return f"{kind}-{datetime.now(UTC) - ago - _TOOK:%Y%m%d-%H%M%S}-{number:04}"


def spread_in_time(ledger: Ledger) -> None:
    """Each run began some minutes before what else is known of it; its progress lies between."""
    took_s = int(_TOOK.total_seconds())
    earlier = f"datetime(recorded_at, '-{took_s} seconds')"
    share = "CAST(rank() OVER (PARTITION BY run_id ORDER BY sequence) AS REAL) / count(*) OVER (PARTITION BY run_id)"
    with ledger.engine.begin() as connection:
        connection.execute(text(f"UPDATE runs SET recorded_at = {earlier}"))
        left = f"CAST({took_s} * (1 - placed.share) AS INT) || ' seconds'"
        connection.execute(
            text(
                f"UPDATE progress SET recorded_at = datetime(recorded_at, '-' || {left})"
                f" FROM (SELECT sequence AS place, {share} AS share FROM progress) AS placed"
                " WHERE progress.sequence = placed.place"
            )
        )


def _tables_of_facts() -> Sequence[str]:
    kinds = {mapper.class_ for mapper in Table.registry.mappers}
    return sorted(kind.__tablename__ for kind in kinds if issubclass(kind, Fact))
