"""LocalForge: pull requests on a git repository of this machine, offline. Each is a file beside its rendered body.

Its state is read back from the repository: merged when the base holds its branch's commits, closed when the branch is
gone. A merge that squashes is not seen as one: then the base holds other commits.
"""

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager
from pathlib import Path

from pydantic import Field

from candidates.file_lock import hold_lock
from candidates.forge import BRANCH_PREFIX, Checkout, ForgeRefused, PullRequest, PullRequestState, PullRequestText
from candidates.record import Record
from candidates.whole_file import write_whole
from compiler_agent.forges.git import Git, default_branch, temporary_clone

_WITHOUT_HOOKS = "--receive-pack=git -c core.hooksPath=/dev/null receive-pack"


class _Comment(Record):
    marker: str
    text: str


class _Recorded(Record):
    """What the repository cannot tell."""

    number: int = Field(ge=1)
    branch: str
    base: str
    head: str
    text: PullRequestText
    is_draft: bool
    is_closed: bool = False
    labels: tuple[str, ...] = ()
    comments: tuple[_Comment, ...] = ()


class LocalForge:
    def __init__(self, repository: Path, records: Path, base_branch: str | None = None) -> None:
        """`repository`: a bare one or one with files, the same by whatever path; `records`: a folder outside
        of it. Raises ForgeRefused."""
        self._path, self._records, self._base = repository.resolve(), records, base_branch
        self._lock = records / ".lock"
        self._git = Git("file", hidden=(str(self._path),))
        if not self._path.is_dir():
            raise ForgeRefused("COMPILER_AGENT_REPOSITORY names no folder: set it to that of a git repository")
        self._records.mkdir(parents=True, exist_ok=True)
        top = self._git.attempt("rev-parse", "--absolute-git-dir", folder=self._path)
        if top[0] != 0:
            raise ForgeRefused("COMPILER_AGENT_REPOSITORY names a folder that is no git repository, or another user's")

    @property
    def repository(self) -> str:
        return str(self._path)

    def checkout(self) -> AbstractContextManager[Checkout]:
        return temporary_clone(self._git, str(self._path), self._base, push_options=(_WITHOUT_HOOKS,))

    def find(self, branch: str) -> PullRequest | None:
        with hold_lock(self._lock):
            found = [each for each in self._all() if each.branch == branch]
        return self._shown(found[-1]) if found else None

    def list_open(self) -> Iterator[PullRequest]:
        with hold_lock(self._lock):
            recorded = self._all()
        for each in recorded:
            shown = self._shown(each)
            if shown.state is PullRequestState.OPEN and shown.branch.startswith(BRANCH_PREFIX):
                yield shown

    def put(self, branch: str, text: PullRequestText, *, is_draft: bool) -> PullRequest:
        head = self._head(branch)
        if head is None:
            raise ForgeRefused(f"the repository has no branch {branch}")
        with hold_lock(self._lock):
            recorded = self._all()
            for each in recorded:
                if each.branch == branch and self._state(each) is PullRequestState.OPEN:
                    changed = each.model_copy(update={"text": text, "head": head})
                    if changed == each:
                        return self._shown(each)
                    break
            else:
                base = self._base or default_branch(self._git, str(self._path), self._path)
                number = max((each.number for each in recorded), default=0) + 1
                changed = _Recorded(number=number, branch=branch, base=base, head=head, text=text, is_draft=is_draft)
            self._write(changed)
        return self._shown(changed)

    def label(self, number: int, labels: tuple[str, ...]) -> None:
        with hold_lock(self._lock):
            known = self._one(number)
            self._write(known.model_copy(update={"labels": tuple(dict.fromkeys((*known.labels, *labels)))}))

    def comment(self, number: int, text: str, marker: str) -> None:
        with hold_lock(self._lock):
            known = self._one(number)
            if all(each.marker != marker for each in known.comments):
                added = (*known.comments, _Comment(marker=marker, text=text))
                self._write(known.model_copy(update={"comments": added}))

    def close(self, number: int) -> None:
        with hold_lock(self._lock):
            self._write(self._one(number).model_copy(update={"is_closed": True}))

    def _shown(self, recorded: _Recorded) -> PullRequest:
        return PullRequest(
            number=recorded.number,
            url=self._body_file(recorded.number).as_uri(),
            branch=recorded.branch,
            state=self._state(recorded),
            text=recorded.text,
            is_draft=recorded.is_draft,
            labels=recorded.labels,
        )

    def _state(self, recorded: _Recorded) -> PullRequestState:
        head = self._head(recorded.branch)
        base = f"refs/heads/{recorded.base}"
        if self._git.attempt("merge-base", "--is-ancestor", recorded.head, base, folder=self._path)[0] == 0:
            return PullRequestState.MERGED
        is_closed = recorded.is_closed or head is None
        return PullRequestState.CLOSED if is_closed else PullRequestState.OPEN

    def _head(self, branch: str) -> str | None:
        status, output, _ = self._git.attempt(
            "rev-parse", "--verify", "-q", f"refs/heads/{branch}^{{commit}}", folder=self._path
        )
        return output.decode().strip() if status == 0 else None

    def _all(self) -> list[_Recorded]:
        """In the order of their numbers."""
        numbers = sorted(
            int(path.stem) for path in self._records.glob("*.json") if re.fullmatch(r"[1-9][0-9]*", path.stem)
        )
        return [self._one(number) for number in numbers]

    def _one(self, number: int) -> _Recorded:
        path = self._records / f"{number}.json"
        try:
            return _Recorded.model_validate_json(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ForgeRefused(f"{path} cannot be read ({error}): restore it, or remove it") from error

    def _write(self, recorded: _Recorded) -> None:
        content = json.dumps(recorded.model_dump(mode="json"), indent=1).encode()
        comments = "".join(f"\n---\n\n{each.text}\n" for each in recorded.comments)
        body = f"# {recorded.text.title}\n\n{recorded.text.body}{comments}"
        write_whole(self._body_file(recorded.number), body.encode())
        write_whole(self._records / f"{recorded.number}.json", content)

    def _body_file(self, number: int) -> Path:
        return (self._records / f"{number}.md").absolute()
