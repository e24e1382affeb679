"""BuildStore: the builds under a home, which of them is live, and the approvals that made it so.

A build is live only by a recorded approval. `current` is a symbolic link that is replaced atomically; the history is
one JSON line for each approval and rollback. A process may be killed at any point: `current` is then the build from
before or the new one, whole either way.
"""

import contextlib
import os
import shutil
import time
from collections.abc import Callable, Collection, Sequence
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from pathlib import Path

from candidates.file_lock import hold_lock
from candidates.record import Record
from candidates.serving_build.build import UNFINISHED, Build, builds_folder, read_build
from candidates.serving_build.runtime import MANIFEST, BuildRefused
from candidates.serving_build.signing import trusted_keys

APPROVED_KEPT_DAYS = 7
"""A build that was approved in the last days is never collected: someone may still roll back to it, or pin it."""
UNFINISHED_KEPT_S = 3600.0
"""A folder that is being written is younger; an older one is what a killed process left."""


class BuildNotFound(Exception):
    """The user named a build that is not there; the message lists what is."""


class LiveMoved(Exception):
    """Another build is live than the one that was to be replaced."""


class NothingToRollBack(Exception):
    """No build is live."""


class ApprovalAction(StrEnum):
    APPROVE = "approve"
    ROLLBACK = "rollback"
    WITHDRAW = "withdraw"


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
        self._home = home
        self._folder = builds_folder(home)
        self._current = self._folder / "current"
        self._history = self._folder / "approvals.jsonl"
        self._lock = self._folder / ".lock"

    def list(self) -> tuple[Build, ...]:
        """Every build, the newest first. Raises runtime.BuildRefused for one that was changed."""
        return tuple(read_build(path) for path in self.paths())

    def paths(self) -> Sequence[Path]:
        """Of the builds' folders, the newest first; nothing in them has been looked at."""
        found = []
        for path in self._folder.glob(f"[0-9a-f]*/{MANIFEST}"):
            with contextlib.suppress(FileNotFoundError):  # collected meanwhile
                if not path.parent.is_symlink():
                    found.append((-path.parent.stat().st_mtime_ns, path.parent.name, path.parent))
        return [path for _, _, path in sorted(found)]

    def show(self, build_id: str) -> Build:
        """The build whose id starts with `build_id`, verified byte for byte.

        Raises BuildNotFound when none or several do, runtime.BuildRefused when a file was changed.
        """
        return read_build(self.path_of(build_id))

    def path_of(self, build_id: str) -> Path:
        """Of the build whose id starts with `build_id`, not looked at. Raises BuildNotFound."""
        ids = sorted(path.name for path in self.paths())
        found = [name for name in ids if name.startswith(build_id)]
        if len(found) != 1 or not build_id:
            known = ", ".join(name[:12] for name in ids) or "none"
            what = "no build has" if not found else f"{len(found)} builds have"
            raise BuildNotFound(f"{what} an id that starts with {build_id!r}; builds in {self._folder}: {known}")
        return self._folder / found[0]

    def current(self) -> str | None:
        """Id of the live build. Raises runtime.BuildRefused where somebody put something else in the link's place."""
        try:
            return os.readlink(self._current)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise BuildRefused(f"{self._current} is no link to a build: remove it, and approve a build") from error

    def live(self) -> Build | None:
        """The live build, checked as in `approve`; None where there is none."""
        current = self.current()
        return None if current is None else read_build(self.path_of(current), trusted_keys(self._home))

    def approve(self, build_id: str, by: str) -> Approval:
        """Makes a build live, after checking every byte of it, and its signature where this home trusts any key.

        Raises as `show` does, and SigningKeyFault.
        """
        with hold_lock(self._lock):
            return self._approve(build_id, by)

    def approve_in_place_of(self, live: str | None, build_id: str, by: str) -> Approval:
        """As `approve`, if `live` is what is live (None: nothing). Raises LiveMoved."""
        with hold_lock(self._lock):
            if (current := self.current()) != live:
                raise LiveMoved(f"{current or 'nothing'} is live, and not {live or 'nothing'}")
            return self._approve(build_id, by)

    def withdraw(self, by: str) -> Approval:
        """Nothing is live afterwards. Raises NothingToRollBack."""
        with hold_lock(self._lock):
            previous = self.current()
            if previous is None:
                raise NothingToRollBack(f"no build is live in {self._folder}")
            return self._move(ApprovalAction.WITHDRAW, None, previous, by)

    def rollback(
        self, by: str, may_serve: Callable[[Build], bool] = lambda build: True, *, live: str | None = None
    ) -> Approval:
        """Moves back to the last build that was live before the current one, passes the checks of `approve`, and may
        serve; to none where there is none. `live`: which build must be the current one; None: any.

        Raises NothingToRollBack, LiveMoved, SigningKeyFault.
        """
        with hold_lock(self._lock):
            previous = self.current()
            if previous is None:
                raise NothingToRollBack(f"no build is live in {self._folder}")
            if live not in (None, previous):
                raise LiveMoved(f"{previous} is live, and not {live}")
            keys = trusted_keys(self._home)
            for earlier in _live_before(previous, self.history()):
                with contextlib.suppress(BuildRefused):
                    if may_serve(read_build(self._folder / earlier, keys)):
                        return self._move(ApprovalAction.ROLLBACK, earlier, previous, by)
            return self._move(ApprovalAction.ROLLBACK, None, previous, by)

    def history(self) -> tuple[Approval, ...]:
        """Oldest first."""
        if not self._history.exists():
            return ()
        # By newlines alone: names may hold what else ends a line. What is behind the last one was being written when
        # the process was killed: that approval never happened.
        *lines, _ = self._history.read_bytes().split(b"\n")
        return tuple(Approval.model_validate_json(line) for line in lines)

    def decisions(self) -> tuple[Approval, ...]:
        """Of the history those that took effect, oldest first: one that was recorded just before the process was killed
        did not."""
        return _effective(self.history(), self.current())

    def collect_garbage(self, keep: int, wanted: Collection[str] = (), *, dry_run: bool = False) -> tuple[str, ...]:
        """Removes builds, each at once, and what killed processes left; the ids of the builds.

        Kept are the newest `keep`, the live build, the last `keep` that rollbacks would go to, those that are `wanted`,
        and every build approved in the last APPROVED_KEPT_DAYS.
        """
        if not self._folder.is_dir():
            return ()
        with hold_lock(self._lock):
            history, live = self.history(), self.current()
            since = datetime.now(UTC) - timedelta(days=APPROVED_KEPT_DAYS)
            kept = {approval.build_id for approval in history if datetime.fromisoformat(approval.at) >= since}
            kept |= set(wanted)
            if live is not None:
                kept |= {live, *_live_before(live, history)[:keep]}
            removed = [path for path in self.paths()[keep:] if path.name not in kept]
            if dry_run:
                return tuple(path.name for path in removed)
            for path in removed:
                path.rename(path.with_name(f"{UNFINISHED}{path.name}"))  # a build is there whole or not at all
            self._prune({f"{UNFINISHED}{path.name}" for path in removed})
        return tuple(path.name for path in removed)

    def _prune(self, removed: set[str]) -> None:
        for path in (*self._folder.glob(f"{UNFINISHED}*"), *self._folder.glob(".current-*")):
            if path.name in removed or time.time() - path.lstat().st_mtime > UNFINISHED_KEPT_S:
                if path.is_dir() and not path.is_symlink():
                    shutil.rmtree(path)
                else:
                    path.unlink()

    def _approve(self, build_id: str, by: str) -> Approval:
        build = read_build(self.path_of(build_id), trusted_keys(self._home))
        return self._move(ApprovalAction.APPROVE, build.id, self.current(), by)

    def _move(self, action: ApprovalAction, build_id: str | None, previous: str | None, by: str) -> Approval:
        approval = Approval(
            action=action,
            build_id=build_id,
            previous=previous,
            by=by,
            at=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        # Recorded first: a build must never be live without its approval.
        self._record(approval)
        if build_id is None:
            self._current.unlink()
        else:
            point_at(self._folder, build_id)
        folder = os.open(self._folder, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        return approval

    def _record(self, approval: Approval) -> None:
        with self._history.open("a+b") as stream:
            stream.seek(0)
            stream.truncate(stream.read().rfind(b"\n") + 1)
            stream.write(approval.model_dump_json().encode() + b"\n")
            stream.flush()
            os.fsync(stream.fileno())


def point_at(builds: Path, build_id: str) -> None:
    """Makes `current` in a folder of builds lead to one of them."""
    pointer = builds / f".current-{os.getpid()}"
    pointer.unlink(missing_ok=True)
    pointer.symlink_to(build_id)
    pointer.replace(builds / "current")


def _live_before(build_id: str, history: tuple[Approval, ...]) -> list[str]:
    """The last first. Approvals stack up, a rollback takes off what lies above where it went; an approval of what is
    already live adds nothing."""
    stack: list[str] = []
    for approval in _effective(history, build_id):
        match approval.action:
            case ApprovalAction.APPROVE if approval.build_id is not None and stack[-1:] != [approval.build_id]:
                stack.append(approval.build_id)
            case ApprovalAction.ROLLBACK | ApprovalAction.WITHDRAW:
                while stack and stack[-1] != approval.build_id:
                    stack.pop()
            case _:
                pass
    if stack[-1:] == [build_id]:
        stack.pop()
    return stack[::-1]


def _effective(history: Sequence[Approval], live: str | None) -> tuple[Approval, ...]:
    """Those after which the pointer was where they say; `live` is where it is now."""
    afterwards = (*(approval.previous for approval in history[1:]), live)
    return tuple(approval for approval, then in zip(history, afterwards, strict=False) if approval.build_id == then)
