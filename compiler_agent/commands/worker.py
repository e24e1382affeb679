"""`compiler-agent worker`: serves task queues of a Temporal server."""

import asyncio
import logging
from pathlib import Path
from typing import Annotated

import typer

from compiler_agent import readiness
from compiler_agent.log_lines import configure_logs
from compiler_agent.ordinary_user import require_ordinary_user
from compiler_agent.outcome import ExitCode, UserFault
from compiler_agent.queue_services import QUEUES, queue_services
from compiler_agent.settings import read_settings
from compiler_agent.telemetry import metrics_config
from compiler_agent.worker import connect, serve

_log = logging.getLogger(__name__)


def worker(
    queue: Annotated[list[str], typer.Option(help=f"Which queues to serve: {', '.join(QUEUES)}.")],
    ready_file: Annotated[
        Path | None, typer.Option(help="Made when it serves, for probes; systemd is told by NOTIFY_SOCKET.")
    ] = None,
) -> ExitCode:
    """Serves task queues until TERM or Ctrl-C; a run starts its own workers, a cluster has them beside it.

    Example: COMPILER_AGENT_TEMPORAL=temporal:7233 compiler-agent worker --queue device
    """
    configure_logs()
    settings = read_settings()
    require_ordinary_user(settings, "a worker")
    if ready_file is not None:
        ready_file.unlink(missing_ok=True)
    if settings.temporal_address is None:
        raise UserFault("a worker needs a server: set COMPILER_AGENT_TEMPORAL to host:port")
    unknown = sorted(set(queue) - set(QUEUES))
    if unknown:
        raise UserFault(f"unknown queue {', '.join(unknown)}: known are {', '.join(QUEUES)}")
    address, namespace = settings.temporal_address, settings.temporal_namespace
    with queue_services(settings, tuple(queue)) as services:
        names = ", ".join(service.queue for service in services)

        def tell_ready() -> None:
            _log.info("serving %s at %s", names, address)
            readiness.tell(is_ready=True)
            if ready_file is not None:
                ready_file.touch()

        async def run() -> None:
            await serve(await connect(address, namespace, metrics_config()), services, tell_ready)

        asyncio.run(run())
    return ExitCode.DONE
