"""Follower: reads what became of pull requests, and takes a base with all of a build's kernels for its approval."""

from collections.abc import Callable, Mapping, Sequence
from enum import StrEnum

from candidates.forge import Checkout, Forge, ForgeRefused, PullRequest, PullRequestState
from candidates.ledger.approvals import Approvals
from candidates.ledger.flaws import Flaws
from candidates.ledger.ledger import Ledger
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.decide import is_of_others, newer_than
from candidates.pull_requests.facts import Event, Standing, following, same_subject, standings
from candidates.pull_requests.hostile_text import code
from candidates.pull_requests.kernel_files import kernel_files
from candidates.pull_requests.shut import shut
from candidates.pull_requests.win import Proposed, folder_of
from candidates.record import Record
from candidates.serving_build.builds import ApprovalAction, BuildNotFound, BuildStore
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


class StateChange(Record):
    """Of a pull request, since the last look."""

    op: str
    url: str | None
    state: PullRequestState
    reason: str = ""
    """Why we closed it."""


class Follower:
    def __init__(
        self,
        forge: Forge,
        ledger: Ledger,
        builds: BuildStore,
        proposed_of: Callable[[str], Sequence[Proposed]],
        root: str,
    ) -> None:
        """`proposed_of`: what a run proposes, by its id; `root`: the folder of all kernels in the repository."""
        self._forge, self._builds, self._proposed_of, self._root = forge, builds, proposed_of, root
        self._ledger, self._facts = ledger, PullRequestFacts(ledger)

    def _standings(self) -> Mapping[str, Standing]:
        return standings(self._facts.of(self._forge.repository))

    def unfinished_runs(self, runs: Sequence[str]) -> tuple[str, ...]:
        """Of `runs`, newest first, those of which something was pushed and not opened; the newest also where something
        waits for its turn."""
        known = tuple(self._standings().values())
        unfinished = {
            each.last.run_id
            for each in known
            if (
                each.last.event is Event.PUSHING or (each.last.event is Event.DEFERRED and each.last.run_id in runs[:1])
            )
            and newer_than(each.last.run_id, same_subject(each, known), runs) is None
        }
        return tuple(run_id for run_id in runs if run_id in unfinished)

    def refresh(self) -> tuple[StateChange, ...]:
        """Records what people did: merged, closed, reopened; closes what brings a kernel that was found wrong."""
        open_now = {each.branch: each for each in self._forge.list_open()}
        flaws = Flaws(self._ledger)
        changes = []
        for standing in self._standings().values():
            if standing.last.event is Event.MERGED:
                continue
            request = open_now.get(standing.last.branch)
            if request is None:
                change = self._see_closed(standing)
            elif standing.is_over:
                change = self._see_open(standing, request)
            else:
                found = next(filter(None, map(flaws.of, standing.last.candidate_ids)), None)
                change = None if found is None else self._withdraw(standing, request, found)
            if change is not None:
                changes.append(change)
        return tuple(changes)

    def _see_closed(self, standing: Standing) -> StateChange | None:
        request = self._forge.find(standing.last.branch)
        if request is None or request.state is PullRequestState.OPEN:
            return None
        event, last = _EVENTS[request.state], standing.last
        if event is Event.CLOSED and standing.is_over:
            if last.is_intended:
                self._facts.add(last.model_copy(update={"is_intended": False}))
            return None
        self._facts.add(following(standing, event, number=request.number, url=request.url))
        return StateChange(op=last.op, url=request.url, state=request.state)

    def _see_open(self, standing: Standing, request: PullRequest) -> StateChange | None:
        last = standing.last
        if last.is_intended:  # killed before it was closed
            shut(self._forge, self._facts, standing, request.number, last.event, last.note)
            return None
        self._facts.add(following(standing, Event.REOPENED, number=request.number, url=request.url))
        return StateChange(op=last.op, url=request.url, state=request.state)

    def _withdraw(self, standing: Standing, request: PullRequest, flaw: str) -> StateChange | None:
        """Closes it, but for one that people reopened or work on: there it only says so."""
        with self._forge.checkout() as checkout:
            head = checkout.branch_head(
                request.branch, f"{self._root}/{folder_of(standing.last.op, standing.last.subject)}"
            )
        is_theirs = standing.last.event is Event.REOPENED or is_of_others(head, standing)
        note = (
            f"A kernel of this pull request was found wrong after it had won: {code(flaw, most=300)}. Do not merge it."
        )
        self._forge.comment(request.number, note, marker="withdrawn")
        if is_theirs:
            return None
        shut(self._forge, self._facts, standing, request.number, Event.WITHDRAWN, flaw)
        return StateChange(op=standing.last.op, url=request.url, state=PullRequestState.CLOSED, reason=flaw)

    def approve_merged(self) -> ApprovalOutcome | None:
        """Makes the newest build live of which the base holds every kernel as proposed; None where there is nothing to
        do.

        One that ever was live, however it came to be, is not made so again, and no older one either.
        """
        decided = {approval.build_id for approval in self._builds.decisions()} | {self._builds.current()}
        waiting: list[tuple[str, Sequence[Proposed]]] = []
        for run_id, build_id in self._facts.runs_with_builds():
            if build_id in decided:
                self._complete(build_id)
                break
            if proposed := self._proposed_of(run_id):
                waiting.append((build_id, proposed))
        if not waiting:
            return None
        impossible = None
        with self._forge.checkout() as checkout:
            for build_id, proposed in waiting:
                if all(self._is_in_base(each, checkout) for each in proposed):
                    outcome = self._approve(build_id, proposed)
                    if outcome.kind is ApprovalKind.APPROVED:
                        return outcome
                    impossible = impossible or outcome
        return impossible

    def _is_in_base(self, proposed: Proposed, checkout: Checkout) -> bool:
        """Byte for byte what is served of it."""
        try:
            held = checkout.base_files(f"{self._root}/{proposed.folder}")
        except ForgeRefused:  # something else stands in the folder's place
            return False
        return held is not None and all(held.get(name) == file for name, file in kernel_files(proposed).items())

    def _approve(self, build_id: str, proposed: Sequence[Proposed]) -> ApprovalOutcome:
        known = self._standings()
        urls = [(known[each.win].url if each.win in known else None) or each.branch for each in proposed]
        by = f"{BY_MERGE} {', '.join(dict.fromkeys(urls))}"
        try:
            approval = self._builds.approve(build_id, by=by)
        except (BuildNotFound, BuildRefused) as error:
            return ApprovalOutcome(build_id=build_id, kind=ApprovalKind.IMPOSSIBLE, reason=str(error))
        Approvals(self._ledger).put(approval)
        return ApprovalOutcome(build_id=build_id, kind=ApprovalKind.APPROVED, reason=by)

    def _complete(self, build_id: str) -> None:
        """Killed between the approval and the ledger, it is in the first alone."""
        recorded = Approvals(self._ledger).of(build_id)
        for approval in self._builds.decisions():
            is_ours = approval.action is ApprovalAction.APPROVE and approval.by.startswith(BY_MERGE)
            if is_ours and approval.build_id == build_id and approval not in recorded:
                Approvals(self._ledger).put(approval)
