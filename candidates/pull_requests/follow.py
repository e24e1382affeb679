"""Follower: reads what became of pull requests, and takes the merge of all of a build's for its approval."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from candidates.forge import Forge, PullRequestState
from candidates.ledger.ledger import Ledger
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.decide import newer_than
from candidates.pull_requests.facts import Event, Standing, following, same_subject, standings
from candidates.pull_requests.win import Proposed
from candidates.record import Record
from candidates.serving_build.builds import Approval, ApprovalAction, BuildNotFound, BuildStore
from candidates.serving_build.runtime import BuildRefused

BY_MERGE = "merged pull request"
"""How the approvals of a merge begin in the history."""
_EVENTS = {PullRequestState.MERGED: Event.MERGED, PullRequestState.CLOSED: Event.CLOSED}


class ApprovalKind(StrEnum):
    APPROVED = "approved"
    IMPOSSIBLE = "impossible"


class ApprovalOutcome(Record):
    build_id: str
    kind: ApprovalKind
    reason: str


class Change(Record):
    """Of the state of a pull request since the last look."""

    op: str
    url: str | None
    state: PullRequestState


class Follower:
    def __init__(
        self,
        forge: Forge,
        ledger: Ledger,
        builds: BuildStore,
        proposed_of: Callable[[str], Sequence[Proposed]],
    ) -> None:
        """`proposed_of`: what a run proposes, by its id."""
        self._forge, self._builds, self._proposed_of = forge, builds, proposed_of
        self._ledger, self._facts = ledger, PullRequestFacts(ledger)

    def standings(self) -> Mapping[str, Standing]:
        return standings(self._facts.of(self._forge.repository))

    def unfinished_runs(self, runs: Sequence[str]) -> tuple[str, ...]:
        """Of `runs`, newest first, those of which something was pushed and not opened, or waits for its turn."""
        known = tuple(self.standings().values())
        unfinished = {
            each.last.run_id
            for each in known
            if each.is_unfinished and newer_than(each.last.run_id, same_subject(each, known), runs) is None
        }
        return tuple(run_id for run_id in runs if run_id in unfinished)

    def refresh(self) -> tuple[Change, ...]:
        """Records what people did: merged, closed."""
        open_now = {each.branch for each in self._forge.list_open()}
        changes = []
        for standing in self.standings().values():
            if standing.is_over or standing.last.branch in open_now:
                continue
            request = self._forge.find(standing.last.branch)
            if request is None or request.state is PullRequestState.OPEN:
                continue
            found = following(standing, _EVENTS[request.state])
            self._facts.add(found.model_copy(update={"number": request.number, "url": request.url}))
            changes.append(Change(op=standing.last.op, url=request.url, state=request.state))
        return tuple(changes)

    def approve_merged(self) -> ApprovalOutcome | None:
        """Makes the newest build live whose kernels are all merged, once; None where there is nothing to do.

        An older one never takes the place of a newer, and one that was moved back from stays so.
        """
        known = self.standings()
        live = self._builds.current()
        asked = {run_id for standing in known.values() for run_id in standing.runs}
        for run_id, build_id in self._facts.runs_with_builds():
            if build_id == live:
                self._complete(build_id)
                return None
            if run_id not in asked:
                continue
            merged = [known.get(proposed.win) for proposed in self._proposed_of(run_id)]
            if not merged or any(each is None or each.last.event is not Event.MERGED for each in merged):
                continue
            return self._approve(build_id, [each.url or each.last.branch for each in merged if each is not None])
        return None

    def _approve(self, build_id: str, urls: Sequence[str]) -> ApprovalOutcome | None:
        if self._approved_by_merge(build_id):
            self._complete(build_id)
            return None
        by = f"{BY_MERGE} {', '.join(dict.fromkeys(urls))}"
        try:
            approval = self._builds.approve(build_id, by=by)
        except (BuildNotFound, BuildRefused) as error:
            return ApprovalOutcome(build_id=build_id, kind=ApprovalKind.IMPOSSIBLE, reason=str(error))
        self._ledger.put_approval(build_id, approval)
        return ApprovalOutcome(build_id=build_id, kind=ApprovalKind.APPROVED, reason=by)

    def _complete(self, build_id: str) -> None:
        """Killed between the approval and the ledger, it is in the first alone."""
        recorded = self._facts.approvals(build_id)
        for approval in self._approved_by_merge(build_id):
            if approval not in recorded:
                self._ledger.put_approval(build_id, approval)

    def _approved_by_merge(self, build_id: str) -> list[Approval]:
        return [
            approval
            for approval in self._builds.history()
            if approval.build_id == build_id
            and approval.action is ApprovalAction.APPROVE
            and approval.by.startswith(BY_MERGE)
        ]
