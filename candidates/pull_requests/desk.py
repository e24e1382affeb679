"""PullRequestDesk: what commands and workflows ask for: open a run's pull requests, follow all of them.

`list_pull_requests` reads what the ledger knows of them."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import NamedTuple

from candidates.forge import Forge
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.wins import Versions, proposed_of
from candidates.pull_requests.facts import PullRequestFact, standings
from candidates.pull_requests.follow import ApprovalOutcome, Follower, StateChange
from candidates.pull_requests.publish import Outcome, Publisher, Style
from candidates.pull_requests.win import Grouping, Proposed
from candidates.record import Record
from candidates.serving_build.builds import BuildStore


class SyncReport(Record):
    """What `compiler-agent pr sync --json` prints."""

    changes: tuple[StateChange, ...]
    approval: ApprovalOutcome | None
    outcomes: tuple[Outcome, ...]
    """Of pull requests that an earlier attempt left unfinished, or that waited for their turn."""


class Listed(NamedTuple):
    last: PullRequestFact
    number: int | None
    url: str | None


def list_pull_requests(ledger: Ledger, repository: str) -> tuple[Listed, ...]:
    """All of a repository that the ledger knows, as they were last seen; asks no forge."""
    known = standings(PullRequestFacts(ledger).of(repository))
    return tuple(Listed(standing.last, standing.number, standing.url) for standing in known.values())


class PullRequestDesk:
    def __init__(
        self,
        ledger: Ledger,
        forge: Forge,
        builds: BuildStore,
        *,
        style: Style,
        grouping: Grouping,
        versions: Versions,
        alone: Callable[[], AbstractContextManager[None]],
    ) -> None:
        self._ledger, self._grouping, self._versions = ledger, grouping, versions
        self._facts = PullRequestFacts(ledger)
        self._publisher = Publisher(forge, self._facts, style, alone)
        self._follower = Follower(forge, ledger, builds, self._proposed, style.folder)
        self._alone = alone

    def open(self, run_id: str | None = None, *, is_dry_run: bool = False) -> tuple[Outcome, ...]:
        """Of the run with this id or the start of it; None: the latest that made a build. None are opened for a build
        that did not pass its gates. Raises LedgerError, ForgeRefused, ForgeBusy; and may then be repeated."""
        found = self._run(run_id)
        return self._publisher.publish(self._proposed(found), self._runs(), is_dry_run=is_dry_run)

    def sync(self) -> SyncReport:
        """Reads what people did, finishes what was begun, and approves what is merged. Raises as `open`."""
        with self._alone():
            changes = self._follower.refresh()
            approval = self._follower.approve_merged()
        runs = self._runs()
        outcomes = [
            outcome
            for run_id in self._follower.unfinished_runs(runs)
            for outcome in self._publisher.publish(self._proposed(run_id), runs)
        ]
        return SyncReport(changes=changes, approval=approval, outcomes=tuple(outcomes))

    def _proposed(self, run_id: str) -> Sequence[Proposed]:
        return proposed_of(self._ledger, run_id, self._grouping, self._versions)

    def _runs(self) -> tuple[str, ...]:
        """Those that made a build, newest first."""
        return tuple(dict.fromkeys(run_id for run_id, _ in self._facts.runs_with_builds()))

    def _run(self, prefix: str | None) -> str:
        runs = self._runs()
        found = runs[:1] if prefix is None else [run_id for run_id in runs if run_id.startswith(prefix)]
        if len(found) != 1:
            what = "no run" if not found else f"{len(found)} runs"
            named = "" if prefix is None else f" with an id that starts with {prefix!r}"
            raise LedgerError(f"{what}{named} made a build: the latest that did are {', '.join(runs[:5]) or 'none'}")
        return found[0]
