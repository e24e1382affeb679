"""Win: a promoted kernel of a run with everything that its pull request says; Proposed: the wins of one pull request.

Pure records: `candidates.ledger.wins` reads them from the ledger.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from candidates.candidate import Candidate, Proposal
from candidates.device import DeviceFingerprint
from candidates.forge import BRANCH_PREFIX
from candidates.measurement import Interval, Measurement
from candidates.promotion import EndToEnd, Gate, PromotionDecision
from candidates.pull_requests.hostile_text import slug
from candidates.record import digest_of
from candidates.serving_build.manifest import InstallationSite, ShapeRange
from candidates.task import KernelTask


class Grouping(StrEnum):
    """How many wins one pull request brings."""

    PROMOTION = "promotion"
    OP = "op"
    """Those of ops of one name together."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Provenance:
    """Of a run and the build that it made."""

    run_id: str
    build_id: str
    trace_digest: str
    model: str
    device: DeviceFingerprint
    versions: tuple[tuple[str, str], ...]
    """Name and version of what made and measured the kernels."""
    gates: tuple[Gate, ...]
    """Of the build as a whole, all passed."""
    end_to_end: EndToEnd
    spend_usd: float
    """What the whole run paid for models."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Win:
    task: KernelTask
    candidate: Candidate
    measurement: Measurement
    """The confirmation."""
    decision: PromotionDecision
    site: InstallationSite
    ranges: tuple[ShapeRange, ...]
    share_of_time: float
    share_by_class: dict[str, float]
    proposal: Proposal | None
    """The first that was tried; None: the ledger knows none."""

    @property
    def place(self) -> str:
        """Names what the kernel stands in for: the same through candidates, nights and traffic."""
        signature = [
            (spec.name, spec.element_type.value, spec.shape, spec.dim_order)
            for spec in (*self.task.inputs, *self.task.outputs)
        ]
        return digest_of([self.task.op, self.task.site, self.task.level, signature, self.task.axes])


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposed:
    """The wins of one pull request, in the order of their places."""

    wins: tuple[Win, ...]
    provenance: Provenance
    grouping: Grouping = Grouping.PROMOTION

    def __post_init__(self) -> None:
        if not self.wins:
            raise ValueError("a pull request needs at least one win")

    @property
    def op(self) -> str:
        return self.wins[0].task.op

    @property
    def subject(self) -> str:
        """What the pull request is about, whichever kernels win there; a newer one on the same subject supersedes."""
        device = self.provenance.device
        about = self.op if self.grouping is Grouping.OP else self.wins[0].place
        return digest_of([self.provenance.model, device.kind, device.model, self.grouping, about])

    @property
    def places(self) -> tuple[str, ...]:
        """Of each win: where it stands in, on which model and processor; the same however wins are grouped."""
        device = self.provenance.device
        return tuple(digest_of([self.provenance.model, device.kind, device.model, win.place]) for win in self.wins)

    @property
    def candidate_ids(self) -> tuple[str, ...]:
        return tuple(win.candidate.id for win in self.wins)

    @property
    def intervals(self) -> tuple[Interval, ...]:
        return tuple(win.measurement.interval for win in self.wins)

    @property
    def stems(self) -> tuple[str, ...]:
        """Of the names of each win's files: no two alike, here or in the folder of another pull request."""
        places = [win.place for win in self.wins]
        return tuple(
            f"{slug(win.task.op)}_{self.subject[:8]}_{win.place[:8]}" + (f"_{again + 1}" if again else "")
            for win, again in ((win, places[:number].count(win.place)) for number, win in enumerate(self.wins))
        )

    @property
    def win(self) -> str:
        """Names exactly these kernels at these places: it has one pull request, ever."""
        return digest_of([self.subject, sorted((win.place, win.candidate.id) for win in self.wins)])

    @property
    def branch(self) -> str:
        return f"{subject_prefix(self.op, self.subject)}{self.win[:12]}"

    @property
    def folder(self) -> str:
        """Below the folder for all kernels."""
        return folder_of(self.op, self.subject)

    @property
    def speedup(self) -> float:
        """Of the win with the largest share of time."""
        return self.largest.measurement.traffic_weighted_speedup

    @property
    def interval(self) -> Interval:
        return self.largest.measurement.interval

    @property
    def largest(self) -> Win:
        return max(self.wins, key=lambda win: (win.share_of_time, win.place))


def folder_of(op: str, subject: str) -> str:
    return f"{slug(op)}_{subject[:8]}"


def subject_prefix(op: str, subject: str) -> str:
    """Of the branches of all pull requests on one subject."""
    return f"{BRANCH_PREFIX}{slug(op)}-{subject[:8]}/"


def group(wins: Iterable[Win], provenance: Provenance, grouping: Grouping) -> tuple[Proposed, ...]:
    """Largest share of time first."""
    parts: dict[str, list[Win]] = {}
    for win in sorted(wins, key=lambda win: (win.place, win.candidate.id)):
        parts.setdefault(win.task.op if grouping is Grouping.OP else win.place, []).append(win)
    proposed = [Proposed(wins=tuple(part), provenance=provenance, grouping=grouping) for part in parts.values()]
    return tuple(sorted(proposed, key=lambda each: (-each.largest.share_of_time, each.subject)))
