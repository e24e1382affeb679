"""BuildStore: the builds under a home, which of them is live, and the approvals that made it so.

A build is live only by a recorded approval. `current` is a symbolic link that is replaced atomically; the history is
one JSON line for each approval and rollback.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from candidates.record import Record
from candidates.serving_build.build import Build, builds_folder, read_build


class BuildNotFound(Exception):
    """The user named a build that is not there; the message lists what is."""


class NothingToRollBack(Exception):
    """No build is live."""


class ApprovalAction(StrEnum):
    APPROVE = "approve"
    ROLLBACK = "rollback"


class Approval(Record):
    """The fact that someone made a build live, or moved back from it."""

    action: ApprovalAction
    build_id: str | None
    """Live from now on; None: the model without any build."""
    previous: str | None
    by: str
    """Who or what decided: a person, a merged pull request, a setting."""
    at: str
    """ISO 8601, UTC."""


class BuildStore:
    def __init__(self, home: Path) -> None:
        self._folder = builds_folder(home)
        self._current = self._folder / "current"
        self._history = self._folder / "approvals.jsonl"

    def list(self) -> tuple[Build, ...]:
        """Every build, the newest first. Raises runtime.BuildRefused for one that was changed."""
        if not self._folder.is_dir():
            return ()
        paths = [
            path for path in self._folder.iterdir() if (path / "manifest.json").is_file() and not path.is_symlink()
        ]
        whole = [path for path in paths if not path.name.startswith(".")]
        return tuple(read_build(path) for path in sorted(whole, key=lambda path: -path.stat().st_mtime_ns))

    def show(self, build_id: str) -> Build:
        """The build whose id starts with `build_id`, verified byte for byte.

        Raises BuildNotFound when none or several do, runtime.BuildRefused when a file was changed.
        """
        ids = sorted(path.parent.name for path in self._folder.glob("[0-9a-f]*/manifest.json"))
        found = [name for name in ids if name.startswith(build_id)]
        if len(found) != 1 or not build_id:
            known = ", ".join(name[:12] for name in ids) or "none"
            what = "no build has" if not found else f"{len(found)} builds have"
            raise BuildNotFound(f"{what} an id that starts with {build_id!r}; builds in {self._folder}: {known}")
        return read_build(self._folder / found[0])

    def current(self) -> str | None:
        """Id of the live build."""
        try:
            return os.readlink(self._current)
        except FileNotFoundError:
            return None

    def approve(self, build_id: str, by: str) -> Approval:
        """Makes a build live, after checking every byte of it; raises as `show` does."""
        build = self.show(build_id)
        with self._locked():
            previous = self.current()
            return self._move(ApprovalAction.APPROVE, build.id, previous, by)

    def rollback(self, by: str) -> Approval:
        """Moves back to the build that was live before the current one. Raises NothingToRollBack, BuildRefused."""
        with self._locked():
            previous = self.current()
            if previous is None:
                raise NothingToRollBack(f"no build is live in {self._folder}")
            earlier = _live_before(previous, self.history())
            if earlier is not None:
                read_build(self._folder / earlier)
            return self._move(ApprovalAction.ROLLBACK, earlier, previous, by)

    def history(self) -> tuple[Approval, ...]:
        """Oldest first."""
        if not self._history.exists():
            return ()
        lines = self._history.read_text(encoding="utf-8").splitlines()
        return tuple(Approval.model_validate_json(line) for line in lines)

    def _move(self, action: ApprovalAction, build_id: str | None, previous: str | None, by: str) -> Approval:
        approval = Approval(
            action=action,
            build_id=build_id,
            previous=previous,
            by=by,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        # Recorded first: a build must never be live without its approval.
        with self._history.open("a", encoding="utf-8") as stream:
            stream.write(approval.model_dump_json() + "\n")
            stream.flush()
            os.fsync(stream.fileno())
        if build_id is None:
            self._current.unlink()
        else:
            pointer = self._folder / f".current-{os.getpid()}"
            pointer.unlink(missing_ok=True)
            pointer.symlink_to(build_id)
            pointer.replace(self._current)
        return approval

    @contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / ".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield


def _live_before(build_id: str, history: tuple[Approval, ...]) -> str | None:
    """Approvals stack up, a rollback takes the topmost off; an approval of what is already live adds nothing."""
    stack: list[str] = []
    for approval in history:
        match approval.action:
            case ApprovalAction.APPROVE if approval.build_id is not None and stack[-1:] != [approval.build_id]:
                stack.append(approval.build_id)
            case ApprovalAction.ROLLBACK if stack:
                stack.pop()
            case _:
                pass
    # An approval that was recorded just before a crash never became live: it lies above `build_id`.
    while stack and stack.pop() != build_id:
        pass
    return stack[-1] if stack else None
