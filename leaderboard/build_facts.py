"""BuildFacts: what the ledger, the home and the serving processes know of one build."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from candidates.ledger.flaws import Flaws
from candidates.ledger.gates import found_of_build, runs_of_build
from candidates.ledger.pull_requests import PullRequestFacts
from candidates.ledger.tables import BuildRow, in_utc
from candidates.promotion import EndToEnd, Gate, have_passed
from candidates.pull_requests.facts import PullRequestFact, standings
from candidates.serving_build.build import Build
from candidates.serving_build.counters import Counters, KernelCalls, sum_calls
from candidates.serving_build.manifest import InstallationSite, KernelEntry, ShapeRange
from candidates.serving_build.signing import named_signers
from leaderboard.board import Board
from leaderboard.shown_builds import RefusedBuild, ShownBuild
from traces.sites import SiteKind


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildFacts:
    build: Build
    made_at: datetime
    runs: Sequence[str]
    """That made it, the newest first."""
    gates: tuple[Gate, ...]
    end_to_end: EndToEnd | None
    """Of the newest run that measured it, as the gates are; None: there is none, or the model did not run with it."""
    signers: Sequence[str]
    """Keys that its signature file names; nobody has checked them for this page."""
    flaws: Mapping[str, str]
    """By kernel."""
    pull_requests: Sequence[PullRequestFact]
    """The latest of each."""

    @property
    def gate_word(self) -> str:
        """A state, as the stylesheet knows it."""
        return "unmeasured" if not self.gates else "passed" if have_passed(self.gates) else "failed"

    @property
    def failed_gates(self) -> str:
        return ", ".join(gate.name for gate in self.gates if not gate.passed)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKernel:
    """What all serving processes together counted of a kernel."""

    entry: KernelEntry
    calls: KernelCalls
    switched_off_in: int
    """Processes."""

    @property
    def compared(self) -> int:
        return sum(self.calls.shadow.values())


def read_facts(board: Board, builds: Iterable[ShownBuild]) -> tuple[BuildFacts | RefusedBuild, ...]:
    """Without those that were collected meanwhile."""
    flaws = Flaws(board.ledger)
    known = (build if isinstance(build, RefusedBuild) else _facts_of(board, build, flaws) for build in builds)
    return tuple(facts for facts in known if facts is not None)


def _facts_of(board: Board, build: Build, flaws: Flaws) -> BuildFacts | None:
    try:
        made_at = datetime.fromtimestamp(build.path.stat().st_mtime, UTC)
    except FileNotFoundError:
        return None
    with Session(board.ledger.engine) as session:
        runs = runs_of_build(session, build.id)
        measured = found_of_build(session, build.id)
        recorded_at = session.scalar(select(func.min(BuildRow.recorded_at)).where(BuildRow.build_id == build.id))
    found = {entry.id: flaws.of(entry.id) for entry in build.manifest.kernels}
    return BuildFacts(
        build=build,
        # A folder that was copied is younger than its build; of one from elsewhere the ledger knows nothing.
        made_at=made_at if recorded_at is None else in_utc(recorded_at),
        runs=runs,
        gates=() if measured is None else measured.gates,
        end_to_end=None if measured is None else measured.end_to_end,
        signers=named_signers(build.path),
        flaws={candidate_id: flaw for candidate_id, flaw in found.items() if flaw is not None},
        pull_requests=_latest_of(PullRequestFacts(board.ledger).of_build(build.id)),
    )


def _latest_of(facts: Sequence[PullRequestFact]) -> Sequence[PullRequestFact]:
    latest = []
    for repository in dict.fromkeys(fact.repository for fact in facts):
        known = standings(fact for fact in facts if fact.repository == repository)
        latest += [
            standing.last.model_copy(update={"number": standing.number, "url": standing.url})
            for standing in known.values()
        ]
    return latest


def sum_counters(build: Build, counted: Sequence[Counters]) -> Sequence[ServedKernel]:
    """Each kernel of the build, in its order."""
    summed = []
    for entry in build.manifest.kernels:
        each = [counters.kernels[entry.id] for counters in counted if entry.id in counters.kernels]
        off = sum(calls.switched_off is not None for calls in each)
        summed.append(ServedKernel(entry=entry, calls=sum_calls(entry.op, each), switched_off_in=off))
    return summed


def range_words(ranges: Sequence[ShapeRange]) -> str:
    """`batch × tokens 1 to 12, or 24 to 1024`: which calls a kernel serves."""
    return ", or ".join(" and ".join(_bound_words(*bounds) for bounds in _bounds(one)) or "any shape" for one in ranges)


def _bounds(one: ShapeRange) -> Sequence[tuple[str, int, int]]:
    return [(" × ".join(bound.axes), bound.low, bound.high) for bound in one]


def _bound_words(axes: str, low: int, high: int) -> str:
    return f"{axes} {low:,}" if low == high else f"{axes} {low:,} to {high:,}"


def site_words(site: InstallationSite) -> str:
    """`29 modules such as model.layers.0.mlp`."""
    match site.kind:
        case SiteKind.FUNCTION:
            return f"function {site.function}"
        case SiteKind.REGION:
            return f"{site.region} of {_module_words(site.module_paths)}"
        case SiteKind.MODULE:
            return _module_words(site.module_paths)


def _module_words(paths: Sequence[str]) -> str:
    return f"module {paths[0]}" if len(paths) == 1 else f"{len(paths)} modules such as {paths[0]}"
