"""PullRequestFact: what was done with the pull request of a win; Standing: what all facts of one come to.

Facts are only added. Decisions on them are in `decide`.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum

from pydantic import Field

from candidates.measurement import Interval
from candidates.pull_requests.kernel_files import kernel_files
from candidates.pull_requests.win import Proposed
from candidates.record import Record, digest_of


class Event(StrEnum):
    DEFERRED = "deferred"
    """It waits: as many are open as may be."""
    PUSHING = "pushing"
    """`head` is about to be the branch's tip. Written before, so that every tip of ours is known after a kill."""
    OPENED = "opened"
    UPDATED = "updated"
    CONFIRMED = "confirmed"
    """Another run measured what is published, so that nothing was changed."""
    MERGED = "merged"
    """Seen merged."""
    CLOSED = "closed"
    """Seen closed, by somebody else, without a merge."""
    SUPERSEDED = "superseded"
    """Closed by us, for a newer win on the same subject."""
    WITHDRAWN = "withdrawn"
    """Closed by us: one of its kernels was found wrong."""
    REOPENED = "reopened"
    """By people, after it had been closed."""


SHUT = (Event.CLOSED, Event.SUPERSEDED, Event.WITHDRAWN)
"""People may reopen it, and merge it."""


class PullRequestFact(Record):
    repository: str
    win: str
    subject: str
    branch: str
    op: str
    run_id: str
    build_id: str
    candidate_ids: tuple[str, ...]
    speedup: float = Field(gt=0)
    interval: Interval
    places: tuple[str, ...]
    """With `candidate_ids`: what it brings, however wins are grouped."""
    intervals: tuple[Interval, ...]
    """Of each win."""
    files: str
    """Names what its `kernel_files` hold."""
    event: Event
    head: str | None = None
    """Of a push: the commit."""
    number: int | None = None
    url: str | None = None
    note: str = ""
    is_intended: bool = False
    """Of SUPERSEDED and WITHDRAWN: we are about to close it. The next fact says that it is closed."""

    @property
    def brings(self) -> frozenset[tuple[str, str]]:
        """Places and candidates."""
        return frozenset(zip(self.places, self.candidate_ids, strict=True))


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The pull request of one win, as the ledger knows it."""

    last: PullRequestFact
    heads: frozenset[str]
    """Every tip that we ever gave the branch."""
    published: PullRequestFact | None
    """The latest opening or update."""
    number: int | None
    url: str | None
    runs: frozenset[str]

    @property
    def is_over(self) -> bool:
        return self.last.event in (Event.MERGED, *SHUT)

    @property
    def is_open(self) -> bool:
        return self.published is not None and not self.is_over


def fact_of(proposed: Proposed, repository: str, event: Event, **details: object) -> PullRequestFact:
    return PullRequestFact.model_validate(
        {
            "repository": repository,
            "win": proposed.win,
            "subject": proposed.subject,
            "branch": proposed.branch,
            "op": proposed.op,
            "run_id": proposed.provenance.run_id,
            "build_id": proposed.provenance.build_id,
            "candidate_ids": proposed.candidate_ids,
            "speedup": proposed.speedup,
            "interval": proposed.interval,
            "places": proposed.places,
            "intervals": proposed.intervals,
            "files": files_digest(proposed),
            "event": event,
        }
        | details
    )


def files_digest(proposed: Proposed) -> str:
    files = kernel_files(proposed)
    return digest_of({name: hashlib.sha256(content).hexdigest() for name, content in files.items()})


def following(standing: Standing, event: Event, **details: object) -> PullRequestFact:
    """A fact about a pull request that is known."""
    known = {"event": event, "head": None, "number": standing.number, "url": standing.url, "note": ""}
    return standing.last.model_copy(update=known | {"is_intended": False} | details)


def standings(facts: Iterable[PullRequestFact]) -> Mapping[str, Standing]:
    """By win; `facts` of one repository, oldest first."""
    by_win: dict[str, list[PullRequestFact]] = {}
    for fact in facts:
        by_win.setdefault(fact.win, []).append(fact)
    return {win: _come_to(known) for win, known in by_win.items()}


def same_subject(standing: Standing, known: Iterable[Standing]) -> list[Standing]:
    """The others."""
    return [each for each in known if each.last.subject == standing.last.subject and each.last.win != standing.last.win]


def _come_to(facts: list[PullRequestFact]) -> Standing:
    published = [fact for fact in facts if fact.event in (Event.OPENED, Event.UPDATED)]
    numbered = [fact for fact in facts if fact.number is not None]
    return Standing(
        last=facts[-1],
        heads=frozenset(fact.head for fact in facts if fact.head is not None),
        published=published[-1] if published else None,
        number=numbered[-1].number if numbered else None,
        url=numbered[-1].url if numbered else None,
        runs=frozenset(fact.run_id for fact in facts),
    )
