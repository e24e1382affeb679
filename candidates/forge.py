"""Forge: where pull requests are opened, a service or a plain git repository, seen from what proposes changes.

What is proposed, and whether, is decided in `candidates.pull_requests`.
"""

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from pydantic import Field

from candidates.record import Record

BRANCH_PREFIX = "compiler-agent/"
"""Of every branch of ours, and of no other."""


class ForgeRefused(Exception):
    """The forge says no, and will say so again: the token, a permission, the repository or what we sent is at fault.

    The message says what the user can do.
    """


class ForgeBusy(Exception):
    """The forge cannot answer now: a rate limit, a failure of its own, no network. Nothing of what was done is lost."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class BranchMoved(Exception):
    """Somebody pushed to the branch between our look at it and our push, which therefore changed nothing."""


class PullRequestState(StrEnum):
    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"
    """Without a merge."""


class PullRequestText(Record):
    title: str
    body: str
    """Markdown."""


class PullRequest(Record):
    number: int = Field(ge=1)
    url: str
    branch: str
    state: PullRequestState
    text: PullRequestText
    is_draft: bool
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """What a branch of ours does to its base: one folder holds exactly these files."""

    folder: str
    """Below the root of the repository, `/` between its parts."""
    files: Mapping[str, bytes]
    """By name within the folder."""
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Commit:
    """A change as one commit upon the base. The same change upon the same base is the same commit."""

    id: str
    content: str
    """Names what the folder holds; equal for equal files."""
    replaced: str | None
    """Names what the folder held in the base; None: there was none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchHead:
    """What is at the tip of a branch that the forge has."""

    commit: Commit
    is_ours: bool
    """The tip is a commit as we make them, untouched. Otherwise somebody worked on the branch."""


class Checkout(Protocol):
    """The repository at one moment. Commits are made here and nowhere else until they are pushed."""

    @property
    def base_branch(self) -> str: ...

    def base_files(self, folder: str) -> Mapping[str, bytes] | None:
        """What the base holds there; None: nothing. Raises ForgeRefused where a file, a link or a submodule is in the
        way of the folder."""
        ...

    def branch_head(self, branch: str, folder: str) -> BranchHead | None:
        """None: the forge has no such branch."""
        ...

    def commit(self, change: Change) -> Commit: ...

    def difference(self, commit: Commit) -> str:
        """To the base, as `git diff` prints it."""
        ...

    def push(self, branch: str, commit: Commit, over: BranchHead | None) -> None:
        """Makes `commit` the branch's tip if that is still `over`; raises BranchMoved if it is not."""
        ...


class PullRequests(Protocol):
    """Every method raises ForgeRefused and ForgeBusy."""

    def find(self, branch: str) -> PullRequest | None:
        """The latest of this branch, in any state."""
        ...

    def list_open(self) -> Iterator[PullRequest]:
        """All whose branch is ours, to the last page."""
        ...

    def put(self, branch: str, text: PullRequestText, *, is_draft: bool) -> PullRequest:
        """The open pull request of a branch that was pushed: opened if there is none, changed where it reads otherwise.

        `is_draft` holds for one that is opened; whether people took it out of draft is theirs.
        """
        ...


class Conversation(Protocol):
    """Every method may be repeated, and raises ForgeRefused and ForgeBusy."""

    def label(self, number: int, labels: tuple[str, ...]) -> None:
        """Adds to those that it has."""
        ...

    def comment(self, number: int, text: str, marker: str) -> None:
        """Once for each marker, a word that names the occasion."""
        ...

    def close(self, number: int) -> None:
        """Without a merge. The branch stays, so that people can reopen it."""
        ...


class Forge(PullRequests, Conversation, Protocol):
    @property
    def repository(self) -> str:
        """As reports name it: never with a secret in it."""
        ...

    def checkout(self) -> AbstractContextManager[Checkout]: ...
