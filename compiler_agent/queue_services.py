"""queue_services: which activities serve a task queue, and with what."""

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any

from candidates.builder import Builder
from candidates.ceilings import fingerprint_device
from candidates.compiler_reports import CompilerReports
from candidates.device import DeviceFingerprint
from candidates.ledger.ledger import Ledger
from compiler_agent.blob_store import open_blobs
from compiler_agent.board_settings import read_board_settings
from compiler_agent.digest_settings import read_digest_receiver
from compiler_agent.gpu import identify_gpu
from compiler_agent.outcome import UserFault
from compiler_agent.settings import Settings
from compiler_agent.wiring import (
    ARTIFACTS,
    LANGUAGES,
    REPORTERS,
    Workbench,
    agents,
    make_sandbox,
    open_desk,
    open_workbench,
)
from compiler_agent.worker import QueueService
from traces.sources.fsspec_source import FsspecSource
from workflows import queues
from workflows.activities.digest import DigestActivities
from workflows.activities.live import LiveActivities
from workflows.activities.nightly import NightlyActivities
from workflows.activities.pull_requests import PullRequestActivities
from workflows.activities.search import AuthorActivities, BuildActivities, DeviceSearchActivities
from workflows.activities.ship import DeviceShipActivities, ShipActivities
from workflows.activities.survey import SurveyActivities, TrafficActivities
from workflows.activities.tune import TuneActivities

QUEUES = (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.SHIP, "device", "gpu")
"""As a worker is told; `device` is the queue of this machine's CPU, `gpu` that of the GPU in COMPILER_AGENT_GPU."""


@contextmanager
def queue_services(settings: Settings, names: tuple[str, ...]) -> Iterator[list[QueueService]]:
    """The activities of each named queue with their collaborators, which live as long as the context."""
    ledger, blobs = Ledger(settings.ledger_url), open_blobs(settings)
    device = fingerprint_device()
    cores = os.cpu_count() or 1
    with ExitStack() as stack:
        services: list[QueueService] = []
        for name in names:
            match name:
                case queues.CONTROL:
                    traffic = TrafficActivities(ledger, settings.home)
                    tune = TuneActivities(ledger)
                    services.append(
                        QueueService(
                            queue=name,
                            activities=[
                                traffic.replay_traffic,
                                tune.conclude_tune,
                                tune.conclude_exam,
                                *_nightly_activities(settings, ledger),
                            ],
                            parallel=2,
                        )
                    )
                case queues.AUTHOR:
                    author = AuthorActivities(ledger, blobs, agents(settings, ledger, blobs))
                    services.append(QueueService(queue=name, activities=[author.propose], parallel=8))
                case queues.BUILD:
                    builder = Builder(
                        make_sandbox(settings), LANGUAGES, slots=cores, cache_folder=settings.cache / ARTIFACTS
                    )
                    reports = CompilerReports(builder, REPORTERS)
                    build = BuildActivities(ledger, blobs, builder, reports, parallel=cores)
                    services.append(
                        QueueService(queue=name, activities=[build.build_generation, build.report_best], parallel=2)
                    )
                case queues.SHIP:
                    ship = ShipActivities(ledger, blobs, settings.home, device)
                    requests = PullRequestActivities(ledger, functools.partial(open_desk, settings, ledger))
                    shipping = [ship.gather_wins, ship.assemble_build, ship.conclude_run]
                    shipping.append(requests.propose_pull_requests)
                    services.append(QueueService(queue=name, activities=shipping, parallel=1))
                case "gpu":
                    services.append(_gpu_service(stack.enter_context(open_workbench(settings)), settings))
                case _:
                    # Kernels for the GPU wait for its own queue, which is its lease.
                    without_gpu = replace(settings, gpu_uuid=None)
                    bench = stack.enter_context(open_workbench(without_gpu))
                    services.append(_device_service(bench, settings, device))
        yield services


def _nightly_activities(settings: Settings, ledger: Ledger) -> Sequence[Callable[..., Any]]:
    """Raises UserFault."""
    nightly = NightlyActivities(ledger, settings.home, FsspecSource)
    board = read_board_settings(settings.home)
    digest = DigestActivities(
        ledger,
        settings.home,
        receiver=read_digest_receiver(),
        page_of=lambda run_id: None if board.public_url is None else f"{board.public_url.geturl()}/runs/{run_id}",
        usd_per_device_hour=board.usd_per_device_hour,
    )
    return nightly.collect_traffic, nightly.conclude_night, digest.write_digest, digest.send_digest


def _search_activities(bench: Workbench) -> DeviceSearchActivities:
    return DeviceSearchActivities(
        bench.ledger, bench.blobs, bench.judge, bench.sanitizers, bench.benchmark, bench.live, bench.count
    )


def _gpu_service(bench: Workbench, settings: Settings) -> QueueService:
    """Raises UserFault where no GPU is named."""
    if settings.gpu_uuid is None:
        raise UserFault("a worker of the queue gpu needs a GPU: set COMPILER_AGENT_GPU to its UUID (nvidia-smi -L)")
    device = identify_gpu(settings.gpu_uuid)
    bench.ledger.put_device(device)
    search = _search_activities(bench)
    return QueueService(
        queue=queues.device_queue(device.id), activities=[search.evaluate_generation, search.settle_winner], parallel=1
    )


def _device_service(bench: Workbench, settings: Settings, device: DeviceFingerprint) -> QueueService:
    bench.ledger.put_device(device)  # schedules are made for devices that the ledger knows
    survey = SurveyActivities(bench.ledger, settings.home, settings.cache)
    search = _search_activities(bench)
    live = LiveActivities(bench.ledger, bench.blobs, settings.home, device, bench.judge, bench.benchmark)
    ship = DeviceShipActivities(bench.ledger, bench.sandbox, settings.home, device)
    return QueueService(
        queue=queues.device_queue(device.id),
        activities=[
            survey.measure_device,
            survey.rank_hot_ops,
            search.evaluate_generation,
            search.settle_winner,
            live.check_live,
            ship.gate_build,
        ],
        parallel=1,
    )
