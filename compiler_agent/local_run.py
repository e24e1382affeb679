"""A run on this machine: the workflow server, its workers and the progress display, for as long as one command lives.

The workers of devices are processes of their own, so that nothing shares an interpreter with a measurement.
"""

import asyncio
import contextlib
import fcntl
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError

from candidates.ceilings import fingerprint_device
from candidates.exam import ExamRequest
from candidates.ledger.ledger import AnyReport, AnyRequest, Ledger
from candidates.ledger.run_states import RunStates
from candidates.run import PromoteRequest, RunRequest, TuneRequest
from candidates.time_left import expected_seconds
from compiler_agent.child_processes import start_child, stop_child
from compiler_agent.outcome import UserFault
from compiler_agent.progress import ProgressDisplay
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import temporal_server
from compiler_agent.worker import connect
from workflows import queues
from workflows.model_exam import ModelExam
from workflows.payloads import ExamInput, RunInput, SearchInput, ShipInput
from workflows.promote_kernels import PromoteKernels
from workflows.retries import USER_FAULTS
from workflows.tune_task import TuneTask
from workflows.tuning_run import TuningRun

POLL_S = 0.5
WORKER_PATIENCE_S = 15.0


class RunFailed(Exception):
    """An activity failed for good, and not by the user's fault; the message names it and the logs."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Kind:
    """A workflow, as its requests are told apart."""

    word: str
    """Its runs are named by it."""
    workflow: str


def perform_run(settings: Settings, ledger: Ledger, request: AnyRequest, console: Console) -> AnyReport:
    """Starts or resumes the run that was asked for, and returns its report when it has ended.

    Ctrl-C ends workers and server in order and passes on; the same request afterwards goes on where it was.
    """
    device = fingerprint_device()
    ledger.put_device(device)
    kind = _kind(request)
    fresh_id = f"{kind.word}-{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
    run_id = ledger.open_run(request, fresh_id)
    if run_id != fresh_id:
        console.print(f"going on with {run_id}", highlight=False)
    try:
        with _exclusive(settings.home), temporal_server(settings) as address, _workers(settings, address) as workers:
            run, display = _input(request, run_id, device.id), ProgressDisplay(expected_seconds(request), console)
            try:
                asyncio.run(_follow(settings, ledger, kind, run, display, address, workers))
            except (RunFailed, UserFault) as fault:
                RunStates(ledger).put_failure(run_id, str(fault))
                raise
    except KeyboardInterrupt:
        console.print(f"{run_id} stopped; the same command goes on with it", highlight=False)
        raise
    report = ledger.report(run_id)
    if report is None:
        raise RuntimeError(f"{run_id} ended without a report")
    return report


def _kind(request: AnyRequest) -> _Kind:
    match request:
        case PromoteRequest():
            return _Kind(word="promote", workflow=PromoteKernels.__name__)
        case RunRequest():
            return _Kind(word="run", workflow=TuningRun.__name__)
        case TuneRequest():
            return _Kind(word="tune", workflow=TuneTask.__name__)
        case ExamRequest():
            return _Kind(word="exam", workflow=ModelExam.__name__)


def _input(request: AnyRequest, run_id: str, device_id: str) -> RunInput | ShipInput | SearchInput | ExamInput:
    match request:
        case PromoteRequest():
            return ShipInput(run_id=run_id, device_id=device_id)
        case RunRequest():
            return RunInput(run_id=run_id, device_id=device_id)
        case TuneRequest():
            return SearchInput(
                run_id=run_id,
                device_id=request.gpu or device_id,
                task_id=request.task_id,
                op=request.op,
                agents=request.agents,
                models=request.models,
                seconds=request.search_s,
                attempts=request.attempts,
            )
        case ExamRequest():
            searches = tuple(
                SearchInput(
                    run_id=run_id,
                    device_id=device_id,
                    task_id=task.task_id,
                    op=task.op,
                    agents=("llm",),
                    models=request.models,
                    seconds=request.search_s,
                    attempts=request.attempts,
                    recalls_past=False,
                    last_stage=request.last_stage,
                )
                for task in request.tasks
            )
            return ExamInput(run_id=run_id, searches=searches)


async def _follow(
    settings: Settings,
    ledger: Ledger,
    kind: _Kind,
    run: RunInput | ShipInput | SearchInput | ExamInput,
    display: ProgressDisplay,
    address: str,
    workers: tuple[subprocess.Popen[bytes], ...],
) -> None:
    client = await connect(address, settings.temporal_namespace)
    handle: WorkflowHandle[Any, Any] = await client.start_workflow(
        kind.workflow,
        run,
        id=run.run_id,
        task_queue=queues.CONTROL,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
    )
    ended = asyncio.ensure_future(handle.result())
    seen = 0
    with display:
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=POLL_S)
                for recorded in ledger.progress_after(run.run_id, seen):
                    seen = recorded.sequence
                    display.show(recorded.progress)
                if (dead := [worker for worker in workers if worker.poll() is not None]) and not ended.done():
                    raise RunFailed(f"a worker ended with status {dead[0].returncode}: see {settings.logs}")
        finally:
            ended.cancel()
    try:
        await ended
    except WorkflowFailureError as failure:
        raise _as_fault(failure, settings.logs) from failure


def _as_fault(failure: WorkflowFailureError, logs: Path) -> Exception:
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ApplicationError):
            if cause.type in USER_FAULTS:
                return UserFault(cause.message)
            return RunFailed(f"{cause.type}: {cause.message} (logs: {logs})")
        cause = cause.__cause__
    return RunFailed(f"{failure.cause or failure} (logs: {logs})")


@contextlib.contextmanager
def _exclusive(home: Path) -> Iterator[None]:
    """Two runs in one home would share one embedded server's database and one device."""
    lock = home / "run.lock"
    with lock.open("a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise UserFault(f"another run is going on in {home}: wait for it, or set COMPILER_AGENT_HOME") from error
        yield


@contextlib.contextmanager
def _workers(settings: Settings, address: str) -> Iterator[tuple[subprocess.Popen[bytes], ...]]:
    environment = os.environ | {
        "COMPILER_AGENT_HOME": str(settings.home),
        "COMPILER_AGENT_LEDGER": settings.ledger_url,
        "COMPILER_AGENT_TEMPORAL": address,
        "COMPILER_AGENT_TEMPORAL_NAMESPACE": settings.temporal_namespace,
        "COMPILER_AGENT_SANDBOX": settings.sandbox,
        # Idle OpenMP threads must sleep: a spinning one takes a core from whatever is measured.
        "OMP_WAIT_POLICY": "passive",
    }
    if settings.gpu_uuid is not None:
        environment["COMPILER_AGENT_GPU"] = settings.gpu_uuid
    program = [sys.executable, "-m", "compiler_agent", "worker"]
    served = {
        "worker.log": (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.SHIP),
        "device-worker.log": ("device",),
    }
    if settings.gpu_uuid is not None:
        served["gpu-worker.log"] = ("gpu",)
    workers = tuple(
        start_child([*program, *(f"--queue={queue}" for queue in names)], settings.logs / log, environment)
        for log, names in served.items()
    )
    try:
        yield workers
    finally:
        for worker in workers:
            worker.terminate()
        for worker in workers:
            stop_child(worker, patience_s=WORKER_PATIENCE_S)
