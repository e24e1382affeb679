"""Board: what the pages read, and the little that they may change."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Generic, TypeVar

from candidates.ledger.blobs import BlobStore
from candidates.ledger.events import Event
from candidates.ledger.find_standings import find_facets
from candidates.ledger.ledger import Ledger
from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildNotFound, BuildStore
from candidates.serving_build.counters import Counters, counted_of
from candidates.serving_build.runtime import BuildRefused
from candidates.standing import Facets, InService
from leaderboard.access.actions import Actions
from leaderboard.access.form_stamps import FormStamps
from leaderboard.access.tokens import TokenFile
from leaderboard.http.streams import Streams
from leaderboard.serving import read_serving
from leaderboard.shown_builds import ShownBuilds

T = TypeVar("T")

_FACETS_KEPT_S = 30.0
_SERVING_KEPT_S = 2.0
"""To say what serves, every file of the live build is looked at, and all that processes counted is read."""


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

    def forget(self) -> None:
        self._until_s = 0.0


def _keep(text: str) -> str:
    return text


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
    shown_builds: ShownBuilds = field(default_factory=ShownBuilds)
    streams: Streams = field(default_factory=Streams)
    redact: Callable[[str], str] = _keep
    """Takes keys out of dialogues with models; those known when a dialogue was stored were taken out then."""
    _facets: _Kept[Facets] = field(default_factory=lambda: _Kept(_FACETS_KEPT_S))
    _serving: _Kept[InService] = field(default_factory=lambda: _Kept(_SERVING_KEPT_S))

    def facets(self) -> Facets:
        return self._facets.get(lambda: find_facets(self.ledger))

    def serving(self) -> InService:
        return self._serving.get(lambda: read_serving(self._live_build(), self.counters))

    def _live_build(self) -> Build | None:
        """None: none is live, or the one that is was changed or removed, and serves nothing."""
        try:
            current = self.builds.current()
            shown = None if current is None else self.shown_builds.show(self.builds, current)
        except (BuildNotFound, BuildRefused):
            return None
        return shown if isinstance(shown, Build) else None

    def forget_serving(self) -> None:
        """What is live was changed here."""
        self._serving.forget()

    def permalink(self, event: Event) -> str | None:
        """Of the page that shows what happened; None where nobody has said how readers reach it."""
        if self.base_url is None:
            return None
        about = event.circumstances
        if about.candidate_id is not None:
            return f"{self.base_url}/candidates/{about.candidate_id}"
        return f"{self.base_url}/builds" if about.build_id is None else f"{self.base_url}/builds/{about.build_id}"

    def counted(self, build_id: str) -> tuple[Counters, ...]:
        return counted_of(self.counters, build_id)
