"""Place, Night, Searched: where a past is put, and what came of a night in it."""

from dataclasses import dataclass, field
from pathlib import Path

from candidates.candidate import Candidate
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.measurement import Measurement
from candidates.serving_build.build import Build
from candidates.task import KernelTask
from tests.leaderboard.browser.past_kernels import (
    OpOfPast,
)
from tests.leaderboard.browser.texts import Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where what is made up goes."""

    ledger: Ledger
    blobs: BlobStore
    home: Path
    say: Say


@dataclass(frozen=True, slots=True, kw_only=True)
class Searched:
    op: OpOfPast
    task: KernelTask
    best: Candidate
    measurement: Measurement
    tried: int

    @property
    def has_won(self) -> bool:
        return self.measurement.traffic_weighted_speedup > 1.05


@dataclass(slots=True, kw_only=True)
class Night:
    """What came of one."""

    run_id: str
    build: Build | None = None
    searches: list[Searched] = field(default_factory=list)
    transcript_of: str = ""
    """A candidate that has one."""
