"""decide: what to do about the pull request of a win, as a pure function of what the ledger and the forge know."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from candidates.forge import BranchHead, Commit, PullRequest, PullRequestState
from candidates.pull_requests.draft import Draft
from candidates.pull_requests.facts import Event, Standing, files_digest
from candidates.pull_requests.hostile_text import code

CLEARLY_FASTER = 1.05
"""Over a win whose pull request people closed: only such a one may ask again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Leave:
    """Nothing is to be done."""

    reason: str
    seen: Event | None = None
    """What the forge shows and the ledger does not know yet."""
    is_current: bool = False
    """Its pull request is open and as it should be."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """People have to do something first."""

    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Defer:
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Push where `pushes`, then open the pull request or change it."""

    pushes: bool
    is_new: bool


Decision = Leave | Conflict | Defer | Publish


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What the forge shows of a draft's branch and its surroundings."""

    pull_request: PullRequest | None
    """The latest of the branch."""
    head: BranchHead | None
    commit: Commit
    """The draft upon the base as it is now."""
    edited: str | None
    """A file in the base, in the draft's folder, that is not as we wrote it."""
    open_others: int
    """Open pull requests of ours, without this one and without those that it supersedes."""

    @property
    def url(self) -> str | None:
        """Of the pull request."""
        return self.pull_request.url if self.pull_request is not None else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    most_open: int = 3


def decide(
    draft: Draft,
    seen: Seen,
    standing: Standing | None,
    others: Sequence[Standing],
    runs: Sequence[str],
    rules: Rules,
) -> Decision:
    """`others`: all of the repository but this; `runs`: ids of all runs, newest first."""
    request, run_id = seen.pull_request, draft.proposed.provenance.run_id
    if request is not None and request.state is PullRequestState.MERGED:
        return Leave(reason=f"merged as {request.url}", seen=Event.MERGED)
    if standing is not None and standing.last.event is Event.MERGED:
        return Leave(reason=f"was merged as {standing.url}")
    if seen.commit.replaced == seen.commit.content:
        return Leave(reason="the base has exactly these files already", seen=Event.MERGED)
    if request is None or request.state is PullRequestState.CLOSED:
        if standing is not None and standing.last.event is Event.SUPERSEDED:
            return Leave(reason=f"was superseded; {standing.url} stays closed")
        if request is not None or (standing is not None and standing.is_over):
            url = seen.url or (standing.url if standing is not None else None)
            return Leave(reason=f"{url} was closed: it is not proposed again", seen=Event.CLOSED)
    subject = draft.proposed.subject
    if (settled := _settled_elsewhere(draft, [each for each in others if each.last.subject != subject])) is not None:
        return Leave(reason=settled)
    others = [each for each in others if each.last.subject == subject]
    newer = newer_than(run_id, others, runs)
    if newer is not None:
        return Leave(reason=f"a newer kernel for this op has {newer.url}")
    if is_of_others(seen.head, standing):
        return Leave(reason=f"branch {draft.proposed.branch} holds commits of others: it is left to them")
    if (refused := _refused_before(draft, others)) is not None:
        return Leave(reason=refused)
    if seen.edited is not None:
        return Conflict(
            reason=f"{code(f'{draft.change.folder}/{seen.edited}')} in the base is not as we wrote it. "
            "Move that work elsewhere, or remove the folder, to have kernels proposed there again"
        )
    if request is None:
        if seen.open_others >= rules.most_open:
            return Defer(reason=f"{seen.open_others} pull requests are open, as many as may be: merge or close one")
        return Publish(pushes=not _holds(seen), is_new=True)
    if standing is not None and _is_later(standing, run_id, runs):
        return Leave(reason="a later run's figures stand there")
    if _is_noise(draft, standing) and seen.head is not None and seen.head.commit.replaced == seen.commit.replaced:
        return Leave(reason="the same kernel, its figures within their interval", is_current=True)
    if _holds(seen) and request.text == draft.text:
        return Leave(reason="is up to date", is_current=True)
    return Publish(pushes=not _holds(seen), is_new=False)


def is_of_others(head: BranchHead | None, standing: Standing | None) -> bool:
    """Whether somebody else worked on the branch with this tip."""
    if head is None or head.is_ours:
        return False
    return standing is None or head.commit.id not in standing.heads


def newer_than(run_id: str, others: Iterable[Standing], runs: Sequence[str]) -> Standing | None:
    """One that is open or merged, and that a later run published. `runs`: newest first."""
    return next(
        (
            other
            for other in others
            if (other.is_open or other.last.event is Event.MERGED) and _is_later(other, run_id, runs)
        ),
        None,
    )


def _age(run_id: str, runs: Sequence[str]) -> int:
    """How many runs are newer."""
    return runs.index(run_id) if run_id in runs else len(runs)


def _is_later(standing: Standing, run_id: str, runs: Sequence[str]) -> bool:
    """Whether a newer run than this had a part in it."""
    return min(_age(each, runs) for each in standing.runs) < _age(run_id, runs)


def _settled_elsewhere(draft: Draft, others: Sequence[Standing]) -> str | None:
    """Why these kernels are not proposed: they were, when wins were grouped otherwise."""
    brings = frozenset(zip(draft.proposed.places, draft.proposed.candidate_ids, strict=True))
    touching = [other for other in others if other.last.brings & brings]
    for other in touching:
        if other.last.event is Event.CLOSED:
            return f"{other.url} with a kernel of these was closed: it is not proposed again"
        if other.is_open and brings <= other.last.brings:
            return f"{other.url} proposes these kernels already"
    merged = [other for other in touching if other.last.event is Event.MERGED]
    if brings <= frozenset().union(*(other.last.brings for other in merged)):
        return f"merged already as {', '.join(str(other.url) for other in merged)}"
    return None


def _holds(seen: Seen) -> bool:
    """Whether the branch has this content, upon a base that has the same in the folder: pushing would say nothing new.

    A base that moved elsewhere is no reason to push: it would only run everybody's checks again.
    """
    if seen.head is None:
        return False
    return (seen.head.commit.content, seen.head.commit.replaced) == (seen.commit.content, seen.commit.replaced)


def _is_noise(draft: Draft, standing: Standing | None) -> bool:
    """Whether another run measured what is published already: the same files, and no figure that is another."""
    if standing is None or standing.published is None:
        return False
    published, proposed = standing.published, draft.proposed
    return (
        published.run_id != proposed.provenance.run_id
        and published.files == files_digest(proposed)
        and all(
            old.low <= new.high and new.low <= old.high
            for old, new in zip(published.intervals, proposed.intervals, strict=True)
        )
    )


def _refused_before(draft: Draft, others: Sequence[Standing]) -> str | None:
    closed = [other for other in others if other.last.event is Event.CLOSED]
    if not closed:
        return None
    fastest = max(closed, key=lambda other: other.last.speedup)
    bar = CLEARLY_FASTER * fastest.last.speedup
    if draft.proposed.speedup >= bar:
        return None
    return (
        f"{fastest.url} for this op was closed at {fastest.last.speedup:.2f}x: the next is proposed from {bar:.2f}x on"
    )
