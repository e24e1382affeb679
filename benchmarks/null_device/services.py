"""Which activities serve a queue of the null device: the real ones, over null collaborators where those need more."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.null_device.activities import NullGateActivities, NullSurveyActivities
from benchmarks.null_device.agent import NullAgent
from benchmarks.null_device.bench import (
    CopyingLanguage,
    NullBenchmark,
    NullBuilder,
    NullJudge,
    NullReports,
    NullSanitizers,
)
from benchmarks.null_device.request import AGENT, null_device
from candidates.builder import Builder
from candidates.candidate import LanguageName
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from compiler_agent.blob_store import open_blobs
from compiler_agent.settings import Settings
from compiler_agent.worker import QueueService
from kernel_sandbox.bubblewrap import BubblewrapSandbox
from traces.sources.fsspec_source import FsspecSource
from workflows import queues
from workflows.activities.digest import DigestActivities
from workflows.activities.live import LiveActivities
from workflows.activities.nightly import NightlyActivities
from workflows.activities.pull_requests import PullRequestActivities
from workflows.activities.search import AuthorActivities, BuildActivities, DeviceSearchActivities
from workflows.activities.ship import ShipActivities
from workflows.activities.tune import TuneActivities

_PARALLEL = 2
QUEUES = (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.SHIP, "device")


@dataclass(frozen=True, slots=True, kw_only=True)
class Effort:
    """How much there is to do for each candidate."""

    generation: int
    source_bytes: int
    measuring_s: float
    is_sandboxed: bool
    """Artifacts are copied within the real sandbox."""
    times: Path | None
    """A file for when each measurement began and ended."""


def null_services(settings: Settings, effort: Effort, names: Sequence[str]) -> list[QueueService]:
    ledger, blobs = Ledger(settings.ledger_url), open_blobs(settings)
    return [_service(name, ledger, blobs, settings, effort) for name in names]


def _service(name: str, ledger: Ledger, blobs: BlobStore, settings: Settings, effort: Effort) -> QueueService:
    device = null_device()
    match name:
        case queues.CONTROL:
            tune = TuneActivities(ledger)
            nightly, digest = (
                NightlyActivities(ledger, settings.home, FsspecSource),
                DigestActivities(ledger, settings.home),
            )
            activities = [NullSurveyActivities(ledger).replay_traffic, tune.conclude_tune, tune.conclude_exam]
            activities += [nightly.collect_traffic, nightly.conclude_night, digest.write_digest, digest.send_digest]
            return QueueService(queue=name, activities=activities, parallel=2)
        case queues.AUTHOR:
            agent = NullAgent(generation=effort.generation, source_bytes=effort.source_bytes)
            author = AuthorActivities(ledger, blobs, {AGENT: agent}.__getitem__)
            return QueueService(queue=name, activities=[author.propose], parallel=8)
        case queues.BUILD:
            copying = Builder(BubblewrapSandbox(), {LanguageName.CPP: CopyingLanguage()}, slots=_PARALLEL)
            builder = copying if effort.is_sandboxed else NullBuilder()
            build = BuildActivities(ledger, blobs, builder, NullReports(), parallel=_PARALLEL)
            return QueueService(queue=name, activities=[build.build_generation, build.report_best], parallel=_PARALLEL)
        case queues.SHIP:
            ship = ShipActivities(ledger, blobs, settings.home, device)
            requests = PullRequestActivities(ledger, lambda: None)
            shipping = [ship.gather_wins, ship.assemble_build, ship.conclude_run, requests.propose_pull_requests]
            return QueueService(queue=name, activities=shipping, parallel=1)
        case "device":
            survey, judge = NullSurveyActivities(ledger), NullJudge()
            clock = NullBenchmark(effort.measuring_s, effort.times)
            search = DeviceSearchActivities(
                ledger, blobs, judge, NullSanitizers(), lambda task: clock, lambda task: None, lambda *about: None
            )
            live = LiveActivities(ledger, blobs, settings.home, device, judge, lambda task: clock)
            activities = [survey.measure_device, survey.rank_hot_ops, search.evaluate_generation, search.settle_winner]
            activities += [live.check_live, NullGateActivities(ledger, settings.home).gate_build]
            return QueueService(queue=queues.device_queue(device.id), activities=activities, parallel=1)
    raise ValueError(f"no queue {name}: there are {', '.join(QUEUES)}")
