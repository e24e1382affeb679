"""Board: what the pages read, and the little that they may change."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from candidates.ledger.blobs import BlobStore
from candidates.ledger.find_standings import find_facets
from candidates.ledger.ledger import Ledger
from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildNotFound, BuildStore
from candidates.serving_build.counters import Counters, CountersUnreadable, read_counters
from candidates.serving_build.runtime import BuildRefused
from candidates.standing import Facets, InService, KernelPlace
from leaderboard.actions import Actions
from leaderboard.form_stamps import FormStamps
from leaderboard.tokens import TokenFile

T = TypeVar("T")

_FACETS_KEPT_S = 30.0
_SERVING_KEPT_S = 2.0
"""Reading a build hashes every byte of it."""


class _Kept(Generic[T]):
    """A value that is read again when it is older than so many seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds, self._until_s = seconds, 0.0
        self._value: T | None = None

    def get(self, read: Callable[[], T]) -> T:
        now_s = time.monotonic()
        if self._value is None or now_s >= self._until_s:
            self._value, self._until_s = read(), now_s + self._seconds
        return self._value


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    ledger: Ledger
    blobs: BlobStore
    builds: BuildStore
    counters: Path
    """Folder of what serving processes counted: `Installation.write_counters`, one file a process."""
    actions: Actions
    tokens: TokenFile
    stamps: FormStamps = field(default_factory=FormStamps)
    usd_per_device_hour: float | None = None
    """Price at which saved time is told in dollars; None: it is not."""
    base_url: str | None = None
    """Where readers find the page, for links in feeds and webhooks; None: as each request says."""
    _facets: _Kept[Facets] = field(default_factory=lambda: _Kept(_FACETS_KEPT_S))
    _serving: _Kept[InService] = field(default_factory=lambda: _Kept(_SERVING_KEPT_S))

    def facets(self) -> Facets:
        return self._facets.get(lambda: find_facets(self.ledger))

    def serving(self) -> InService:
        return self._serving.get(self._read_serving)

    def live_build(self) -> Build | None:
        """None: none is live, or the one that is was changed or removed, and serves nothing."""
        current = self.builds.current()
        try:
            return None if current is None else self.builds.show(current)
        except (BuildNotFound, BuildRefused):
            return None

    def counted(self, build_id: str) -> tuple[Counters, ...]:
        """What processes that serve the build counted; files that are none of a runtime's are passed over."""
        read = []
        for path in sorted(self.counters.glob("*.json")):
            try:
                read.append(read_counters(path))
            except CountersUnreadable:
                continue
        return tuple(counters for counters in read if counters.build_id == build_id)

    def _read_serving(self) -> InService:
        build = self.live_build()
        if build is None:
            return InService()
        places = {
            entry.id: KernelPlace(task_id=entry.task_id, candidate_id=entry.id) for entry in build.manifest.kernels
        }
        compared = {
            candidate_id
            for counters in self.counted(build.id)
            for candidate_id, kernel in counters.kernels.items()
            if kernel.shadow
        }
        return InService(
            live=frozenset(places.values()),
            shadow=frozenset(place for candidate_id, place in places.items() if candidate_id in compared),
        )
