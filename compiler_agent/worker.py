"""A worker process: serves task queues until it is told to stop."""

import asyncio
import functools
import logging
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from temporalio.client import Client, TLSConfig
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.runtime import (
    LogForwardingConfig,
    LoggingConfig,
    PrometheusConfig,
    Runtime,
    TelemetryConfig,
    TelemetryFilter,
)
from temporalio.worker import Worker

from compiler_agent.outcome import UserFault
from compiler_agent.telemetry import flush_spans, tracing
from compiler_agent.temporal_security import read_temporal_security
from compiler_agent.temporal_server import TemporalUnavailable
from workflows.activities.failures import FailuresByCause
from workflows.activities.telemetry import Telemetry
from workflows.kernel_search import KernelSearch
from workflows.model_exam import ModelExam
from workflows.nightly_run import NightlyRun
from workflows.promote_kernels import PromoteKernels
from workflows.queues import CONTROL
from workflows.ship_winner import ShipWinner
from workflows.tune_task import TuneTask
from workflows.tuning_run import TuningRun

WORKFLOWS = (NightlyRun, TuningRun, TuneTask, ModelExam, KernelSearch, ShipWinner, PromoteKernels)


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueService:
    """What a worker does for one task queue."""

    queue: str
    activities: Sequence[Callable[..., Any]]
    parallel: int
    """Activities at once; 1 on a device queue, which is its lease."""


@functools.cache
def runtime(metrics: PrometheusConfig | None = None) -> Runtime:
    """The process's own: what the SDK's core has to say goes to Python's log; by default it writes on standard output,
    which belongs to results."""
    forwarding = LogForwardingConfig(logger=logging.getLogger("temporalio.core"))
    return Runtime(
        telemetry=TelemetryConfig(
            logging=LoggingConfig(TelemetryFilter(core_level="WARN", other_level="ERROR"), forwarding),
            metrics=metrics,
        )
    )


async def connect(address: str, namespace: str, metrics: PrometheusConfig | None = None) -> Client:
    """As the environment secures it. Raises TemporalUnavailable, and UserFault for credentials that cannot be read and
    where `metrics` cannot be served."""
    security = read_temporal_security()
    try:
        own_runtime = runtime(metrics)
    except (RuntimeError, ValueError) as error:
        raise UserFault(f"a worker cannot serve its metrics (COMPILER_AGENT_WORKER_METRICS): {error}") from error
    tls = TLSConfig(server_root_ca_cert=security.ca, client_cert=security.certificate, client_private_key=security.key)
    try:
        return await Client.connect(
            address,
            namespace=namespace,
            data_converter=pydantic_data_converter,
            tls=tls if security.has_tls else False,
            api_key=security.api_key,
            runtime=own_runtime,
            interceptors=tracing(),
        )
    except (RuntimeError, ValueError) as error:  # what temporalio raises when nobody answers, or there is no such port
        over = " over TLS" if security.has_tls else ""
        raise TemporalUnavailable(
            f"no Temporal server answers{over} at {address}: start it, or set COMPILER_AGENT_TEMPORAL to its host:port"
        ) from error


async def serve(
    client: Client, services: Sequence[QueueService], tell_ready: Callable[[], None] = lambda: None
) -> None:
    """Runs until TERM or INT, then lets activities see their cancellation and ends."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    async with AsyncExitStack() as workers:
        for service in services:
            await workers.enter_async_context(
                Worker(
                    client,
                    task_queue=service.queue,
                    workflows=WORKFLOWS if service.queue == CONTROL else [],
                    activities=service.activities,
                    interceptors=[FailuresByCause(), Telemetry()],
                    activity_executor=ThreadPoolExecutor(service.parallel),
                    max_concurrent_activities=service.parallel,
                    graceful_shutdown_timeout=timedelta(seconds=1),
                )
            )
        tell_ready()
        await stop.wait()
    flush_spans()
