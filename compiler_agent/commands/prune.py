"""`compiler-agent prune`: what was kept long enough goes; never evidence of a win."""

import contextlib
import stat
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import select
from sqlalchemy.orm import Session

from candidates.ledger.blobs import REMOVED
from candidates.ledger.ledger import Ledger
from candidates.ledger.prune import PrunedBlobs, prune_blobs, prune_progress
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.tables import BuildRow, PullRequestRow, RunEndRow
from candidates.pull_requests.facts import standings
from candidates.record import Record
from candidates.serving_build.builds import BuildStore
from candidates.whole_file import PARTIAL
from compiler_agent.blob_store import open_blobs
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.program_health import find_up
from compiler_agent.retention_settings import RetentionSettings, read_retention_settings
from compiler_agent.settings import Settings, read_settings


class Pruned(Record):
    dry_run: bool
    builds: tuple[str, ...]
    blobs: PrunedBlobs
    progress_lines: int
    logs: tuple[str, ...]
    left_behind: int
    """Files that killed processes were writing."""


_LEFT_DAYS = 1 / 24
"""What is being written is younger."""


def prune(
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Removes what was kept as long as COMPILER_AGENT_KEEP_… says: blobs of candidates that won nothing, builds that
    nobody can go back to, lines of progress of ended runs, logs.

    Always kept are all facts, what was promoted or retracted with all that it was made from, the live build and those
    that a rollback or an open pull request needs, and whatever is younger than the oldest run that has not ended. Runs
    may go on meanwhile.

    Example: compiler-agent prune --dry-run
    """
    made = prune_home(read_settings(), read_retention_settings(), dry_run=dry_run)
    if json:
        print_json(made)
        return ExitCode.DONE
    blobs = made.blobs
    lines = [
        f"{'would go' if dry_run else 'gone'}: {blobs.blobs} blobs ({blobs.size_bytes / 2**20:.1f} MiB), "
        f"{len(made.builds)} builds, {made.progress_lines} lines of progress, {len(made.logs)} logs, "
        f"{made.left_behind} files that killed processes left"
    ]
    if blobs.held_by:
        lines.append(f"held back by runs that have not ended: {', '.join(blobs.held_by[:5])}")
    result_console.print("\n".join(lines), highlight=False, markup=False)
    return ExitCode.DONE


def prune_home(settings: Settings, kept: RetentionSettings, *, dry_run: bool) -> Pruned:
    ledger, builds = Ledger(settings.ledger_url), BuildStore(settings.home)
    now = datetime.now(UTC)
    gone = builds.collect_garbage(kept.builds, set(_wanted_builds(ledger)), dry_run=dry_run)
    blobs = prune_blobs(
        ledger,
        open_blobs(settings),
        before=now - timedelta(days=kept.candidates_days),
        shipped=_shipped(builds),
        dry_run=dry_run,
    )
    lines = prune_progress(ledger, before=now - timedelta(days=kept.progress_days), dry_run=dry_run)
    up = find_up(settings.home)
    # Who has a file open goes on writing to it when it is gone, and nobody reads that.
    written = set() if up is None else {Path(program.log).name for program in up.programs}
    logs = tuple(log for log in _old_files(settings.logs, "*", kept.logs_days) if log.name not in written)
    left = [path for begin in (PARTIAL, REMOVED) for path in _old_files(settings.home, f"{begin}*", _LEFT_DAYS)]
    if not dry_run:
        for path in (*logs, *left):
            path.unlink(missing_ok=True)
    return Pruned(
        dry_run=dry_run,
        builds=gone,
        blobs=blobs,
        progress_lines=lines,
        logs=tuple(str(log) for log in logs),
        left_behind=len(left),
    )


def _wanted_builds(ledger: Ledger) -> Iterator[str]:
    """Of runs that have not ended, and of pull requests that are not over."""
    facts = PullRequestFacts(ledger)
    with Session(ledger.reader) as session:
        repositories = session.scalars(select(PullRequestRow.repository).distinct()).all()
        ended = select(RunEndRow.run_id)
        yield from session.scalars(select(BuildRow.build_id).where(BuildRow.run_id.not_in(ended)))
    for repository in repositories:
        for standing in standings(facts.of(repository)).values():
            if not standing.is_over:
                yield standing.last.build_id


def _shipped(builds: BuildStore) -> set[str]:
    """Candidates in builds that are there. Raises BuildRefused for a build that was changed."""
    return {kernel.id for build in builds.list() for kernel in build.manifest.kernels}


def _old_files(folder: Path, names: str, days: float) -> Iterator[Path]:
    for path in sorted(folder.rglob(names)):
        with contextlib.suppress(FileNotFoundError):  # another process removed it
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and time.time() - status.st_mtime > days * 86_400:
                yield path
