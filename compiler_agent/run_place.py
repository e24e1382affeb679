"""open_run_place: the server and the workers of a run: those of `up`, or some that live as long as the command.

The workers of devices are processes of their own, so that nothing shares an interpreter with a measurement.
"""

import contextlib
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, replace

from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.home_lock import HomeTaken, hold_home
from compiler_agent.local_service import other_settings
from compiler_agent.outcome import UserFault
from compiler_agent.program_health import find_up
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker_programs import WORKER_PATIENCE_S, queue_names, worker_command, worker_environment


@dataclass(frozen=True, slots=True, kw_only=True)
class RunPlace:
    """Where a run is done."""

    address: str
    workers: tuple[subprocess.Popen[bytes], ...]
    """Ours; none where `up` has its own, and the run goes on when we stop."""


@contextlib.contextmanager
def open_run_place(settings: Settings) -> Iterator[RunPlace]:
    """Through the `up` that serves this home, else with a server and workers of our own. Raises HomeTaken."""
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(hold_home(settings.home, "run"))
        except HomeTaken as taken:
            address = _served_by(settings, taken)
            yield RunPlace(address=address, workers=())
            return
        address = stack.enter_context(temporal_server(settings))
        yield RunPlace(address=address, workers=stack.enter_context(_workers(settings, address)))


def _served_by(settings: Settings, taken: HomeTaken) -> str:
    """Raises HomeTaken where it is no `up`, UserFault where that one serves with other settings than we have."""
    health = find_up(settings.home)
    if health is None:
        raise taken
    if differing := other_settings(settings, health):
        raise UserFault(
            f"`compiler-agent up` (pid {health.pid}) serves {settings.home} with another "
            f"{', '.join(differing)}: give both the same settings, or stop it"
        )
    return health.service.temporal_address


@contextlib.contextmanager
def _workers(settings: Settings, address: str) -> Iterator[tuple[subprocess.Popen[bytes], ...]]:
    environment = worker_environment(replace(settings, allow_root=True), address)  # they live as long as we do
    own_process = {"device": "device-worker.log", "gpu": "gpu-worker.log"}
    served: dict[str, list[str]] = {}
    for queue in queue_names(settings):
        served.setdefault(own_process.get(queue, "worker.log"), []).append(queue)
    workers = tuple(
        start_child(worker_command(names), settings.logs / log, environment) for log, names in served.items()
    )
    try:
        yield workers
    finally:
        stop_children(workers, patience_s=WORKER_PATIENCE_S)
