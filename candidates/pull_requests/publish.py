"""Publisher: opens, updates and supersedes the pull requests of a run, so that it may be killed and repeated anywhere.

Order makes it so. What is about to be pushed is in the ledger before; a branch is pushed before its pull request is
opened; a pull request is found by its branch, and a branch holds nothing but what its records give.
"""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from enum import StrEnum

from candidates.forge import BRANCH_PREFIX, BranchMoved, Checkout, Forge, ForgeRefused, PullRequest, PullRequestState
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.pull_requests.decide import (
    Conflict,
    Decision,
    Defer,
    Leave,
    Publish,
    Rules,
    Seen,
    decide,
    is_of_others,
)
from candidates.pull_requests.draft import Draft, draft_pull_request, foreign_edit
from candidates.pull_requests.facts import Event, Standing, fact_of, standings
from candidates.pull_requests.generated_test import NoTest
from candidates.pull_requests.shut import shut
from candidates.pull_requests.win import Proposed, subject_prefix
from candidates.record import Record


class OutcomeKind(StrEnum):
    OPENED = "opened"
    UPDATED = "updated"
    UNCHANGED = "unchanged"
    LEFT = "left"
    """Merged, closed, superseded, or worked on by others: nothing is done to it."""
    DEFERRED = "deferred"
    CONFLICT = "conflict"
    REFUSED = "refused"
    """By the forge, for a reason that only the user can mend."""
    PLANNED = "planned"
    """Of a dry run: it would be opened or updated."""


class Outcome(Record):
    op: str
    kind: OutcomeKind
    branch: str
    url: str | None
    reason: str
    title: str | None = None
    body: str | None = None
    """With the title and the difference: of what a dry run would publish."""
    difference: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Style:
    """How pull requests are made here."""

    folder: str = "compiler_agent_kernels"
    labels: tuple[str, ...] = ("compiler-agent",)
    is_draft: bool = False
    rules: Rules = field(default_factory=Rules)


class Publisher:
    def __init__(
        self,
        forge: Forge,
        facts: PullRequestFacts,
        style: Style,
        alone: Callable[[], AbstractContextManager[None]],
    ) -> None:
        """`alone`: held while pull requests are decided on and changed; two at once could both be the last allowed."""
        self._forge, self._facts, self._style, self._alone = forge, facts, style, alone

    def publish(
        self, proposed: Sequence[Proposed], runs: Sequence[str], *, is_dry_run: bool = False
    ) -> tuple[Outcome, ...]:
        """`runs`: ids of all runs, newest first. Raises ForgeBusy, and ForgeRefused where the repository
        cannot be read at all; then run it again."""
        if not proposed:
            return ()
        with self._alone(), self._forge.checkout() as checkout:
            return tuple(self._attempt(each, checkout, runs, is_dry_run=is_dry_run) for each in proposed)

    def _attempt(self, proposed: Proposed, checkout: Checkout, runs: Sequence[str], *, is_dry_run: bool) -> Outcome:
        try:
            return self._publish(proposed, checkout, runs, is_dry_run=is_dry_run)
        except ForgeRefused as error:
            return _outcome(proposed, OutcomeKind.REFUSED, None, str(error))

    def _publish(self, proposed: Proposed, checkout: Checkout, runs: Sequence[str], *, is_dry_run: bool) -> Outcome:
        try:
            draft = draft_pull_request(proposed, self._style.folder)
            replaced = checkout.base_files(draft.change.folder)
        except (NoTest, ForgeRefused) as error:
            return _outcome(proposed, OutcomeKind.CONFLICT, None, str(error))
        known = standings(self._facts.of(self._forge.repository))
        standing = known.get(proposed.win)
        others = [each for each in known.values() if each is not standing]
        open_now = tuple(self._forge.list_open())
        prefix = subject_prefix(proposed.op, proposed.subject)
        seen = Seen(
            pull_request=self._forge.find(proposed.branch),
            head=checkout.branch_head(proposed.branch, draft.change.folder),
            commit=checkout.commit(draft.change),
            edited=foreign_edit(dict(replaced)) if replaced is not None else None,
            open_others=sum(not each.branch.startswith(prefix) for each in open_now),
        )
        decision = decide(draft, seen, standing, others, runs, self._style.rules)
        if is_dry_run:
            return _plan(draft, seen, decision, checkout)
        outcome, number = self._carry_out(draft, seen, standing, decision, checkout)
        if number is not None:
            old = [each for each in open_now if each.branch.startswith(prefix) and each.branch != proposed.branch]
            self._supersede(old, others, outcome, checkout, draft)
        return outcome

    def _carry_out(
        self, draft: Draft, seen: Seen, standing: Standing | None, decision: Decision, checkout: Checkout
    ) -> tuple[Outcome, int | None]:
        """Beside the outcome, the number of a pull request that is open and as it should be."""
        proposed, repository, request = draft.proposed, self._forge.repository, seen.pull_request
        url, number = seen.url, request.number if request is not None else None
        match decision:
            case Leave(is_current=True) if request is not None:
                if standing is None or standing.published is None:
                    # Killed after it was opened, before that was written down; or the ledger is a new one.
                    return self._settle(draft, request, is_new=True)
                if proposed.provenance.run_id not in standing.runs:
                    self._facts.add(fact_of(proposed, repository, Event.CONFIRMED, number=number, url=url))
                return _outcome(proposed, OutcomeKind.UNCHANGED, url, decision.reason), number
            case Leave():
                is_known = standing is not None and (
                    standing.is_over if decision.seen is Event.CLOSED else standing.last.event is Event.MERGED
                )
                if decision.seen is not None and not is_known:
                    self._facts.add(fact_of(proposed, repository, decision.seen, number=number, url=url))
                if decision.seen is Event.MERGED and request is not None and request.state is PullRequestState.OPEN:
                    self._forge.comment(request.number, decision.reason, marker="in-base")
                    self._forge.close(request.number)
                return _outcome(proposed, OutcomeKind.LEFT, url, decision.reason), None
            case Conflict():
                if number is not None:
                    self._forge.comment(number, decision.reason, marker=f"conflict-{(seen.commit.replaced or '')[:16]}")
                return _outcome(proposed, OutcomeKind.CONFLICT, url, decision.reason), None
            case Defer():
                self._facts.add(fact_of(proposed, repository, Event.DEFERRED, note=decision.reason))
                return _outcome(proposed, OutcomeKind.DEFERRED, url, decision.reason), None
            case Publish():
                if decision.pushes:
                    self._facts.add(fact_of(proposed, repository, Event.PUSHING, head=seen.commit.id))
                    try:
                        checkout.push(proposed.branch, seen.commit, over=seen.head)
                    except BranchMoved as moved:
                        return _outcome(proposed, OutcomeKind.CONFLICT, url, str(moved)), None
                put = self._forge.put(proposed.branch, draft.text, is_draft=self._style.is_draft)
                return self._settle(draft, put, is_new=decision.is_new)

    def _settle(self, draft: Draft, request: PullRequest, *, is_new: bool) -> tuple[Outcome, int | None]:
        if is_new:
            self._forge.label(request.number, self._style.labels)
        event = Event.OPENED if is_new else Event.UPDATED
        self._facts.add(fact_of(draft.proposed, self._forge.repository, event, number=request.number, url=request.url))
        kind = OutcomeKind.OPENED if is_new else OutcomeKind.UPDATED
        return _outcome(draft.proposed, kind, request.url, draft.text.title), request.number

    def _supersede(
        self, old: Sequence[PullRequest], others: Sequence[Standing], by: Outcome, checkout: Checkout, draft: Draft
    ) -> None:
        """Says so and closes them, but for those that people work on, where it only says so."""
        by_branch = {each.last.branch: each for each in others}
        for request in old:
            standing = by_branch.get(request.branch)
            if standing is not None and standing.last.event is Event.REOPENED:
                continue
            head = checkout.branch_head(request.branch, draft.change.folder)
            is_theirs = is_of_others(head, standing)
            note = f"A newer kernel for this op is proposed in {by.url}."
            if is_theirs:
                note += " This branch holds commits of others, so it stays open."
            self._forge.comment(request.number, note, marker=f"superseded-{draft.proposed.win[:16]}")
            if is_theirs:
                continue
            if standing is not None:
                shut(self._forge, self._facts, standing, request.number, Event.SUPERSEDED, f"by {by.url}")
            else:
                self._forge.close(request.number)


def _plan(draft: Draft, seen: Seen, decision: Decision, checkout: Checkout) -> Outcome:
    match decision:
        case Publish():
            what = "open a pull request" if decision.is_new else "update the pull request"
            where = f"push {BRANCH_PREFIX}… and {what}" if decision.pushes else what
            planned = _outcome(draft.proposed, OutcomeKind.PLANNED, seen.url, f"would {where}")
            return planned.model_copy(
                update={
                    "title": draft.text.title,
                    "body": draft.text.body,
                    "difference": checkout.difference(seen.commit),
                }
            )
        case Leave():
            kind = OutcomeKind.UNCHANGED if decision.is_current else OutcomeKind.LEFT
            return _outcome(draft.proposed, kind, seen.url, decision.reason)
        case Conflict():
            return _outcome(draft.proposed, OutcomeKind.CONFLICT, seen.url, decision.reason)
        case Defer():
            return _outcome(draft.proposed, OutcomeKind.DEFERRED, seen.url, decision.reason)


def _outcome(proposed: Proposed, kind: OutcomeKind, url: str | None, reason: str) -> Outcome:
    return Outcome(op=proposed.op, kind=kind, branch=proposed.branch, url=url, reason=reason)
