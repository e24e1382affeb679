"""perform_run: a run that somebody waits for: started or gone on with, its progress shown, its report returned."""

import asyncio
import secrets
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from temporalio.client import WorkflowFailureError, WorkflowHandle
from temporalio.common import WorkflowIDConflictPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError, RPCStatusCode

from candidates.ceilings import fingerprint_device
from candidates.exam import ExamRequest
from candidates.ledger.ledger import AnyReport, AnyRequest, Ledger
from candidates.ledger.run_states import SILENT_S, Running, RunStates
from candidates.run import PromoteRequest, RunRequest, TuneRequest
from candidates.time_left import expected_seconds
from compiler_agent.outcome import UserFault
from compiler_agent.progress import ProgressDisplay
from compiler_agent.run_place import RunPlace, open_run_place
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import TemporalUnavailable
from compiler_agent.worker import connect
from workflows import queues
from workflows.model_exam import ModelExam
from workflows.payloads import ExamInput, RunInput, SearchInput, ShipInput
from workflows.promote_kernels import PromoteKernels
from workflows.retries import USER_FAULTS
from workflows.search_so_far import search_so_far
from workflows.tune_task import TuneTask
from workflows.tuning_run import TuningRun

EXAMINED = ("llm",)
POLL_S = 0.5
AWAY_S = 120.0
"""How long a server may be away that is started again by others."""

_AWAY = (RPCStatusCode.UNAVAILABLE, RPCStatusCode.UNKNOWN, RPCStatusCode.CANCELLED, RPCStatusCode.DEADLINE_EXCEEDED)


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
    run_id, is_ours = None, True
    try:
        with open_run_place(settings) as place:  # first: a command that is refused leaves no run that never ends
            is_ours = bool(place.workers)
            run_id = ledger.open_run(request, fresh_id)
            if run_id != fresh_id:
                console.print(f"going on with {run_id}", highlight=False)
                asyncio.run(_require_known(run_id, settings, ledger, place.address))
            run = _input(ledger, request, run_id, device.id)
            display = ProgressDisplay(expected_seconds(request), console)
            try:
                asyncio.run(_follow(settings, ledger, kind, run, display, place))
            except (RunFailed, UserFault) as fault:
                RunStates(ledger).put_failure(run_id, str(fault))
                raise
    except KeyboardInterrupt:
        what = "stopped; the same command goes on with it" if is_ours else "goes on; the same command follows it"
        if run_id is not None:
            console.print(f"{run_id} {what}", highlight=False)
        raise
    report = None if run_id is None else ledger.report(run_id)
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


def _input(
    ledger: Ledger, request: AnyRequest, run_id: str, device_id: str
) -> RunInput | ShipInput | SearchInput | ExamInput:
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
                so_far=search_so_far(ledger, run_id, request.task_id, request.agents),
            )
        case ExamRequest():
            searches = tuple(
                SearchInput(
                    run_id=run_id,
                    device_id=device_id,
                    task_id=task.task_id,
                    op=task.op,
                    agents=EXAMINED,
                    models=request.models,
                    seconds=request.search_s,
                    attempts=request.attempts,
                    recalls_past=False,
                    last_stage=request.last_stage,
                    so_far=search_so_far(ledger, run_id, task.task_id, EXAMINED),
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
    place: RunPlace,
) -> None:
    client = await connect(place.address, settings.temporal_namespace)
    handle: WorkflowHandle[Any, Any] = await client.start_workflow(
        kind.workflow,
        run,
        id=run.run_id,
        task_queue=queues.CONTROL,
        id_conflict_policy=WorkflowIDConflictPolicy.USE_EXISTING,
        id_reuse_policy=WorkflowIDReusePolicy.ALLOW_DUPLICATE_FAILED_ONLY,
    )
    ended = asyncio.ensure_future(_result(handle, place))
    seen = 0
    with display:
        try:
            while not ended.done():
                await asyncio.wait([ended], timeout=POLL_S)
                for recorded in ledger.progress_after(run.run_id, seen):
                    seen = recorded.sequence
                    display.show(recorded.progress)
                if (dead := [worker for worker in place.workers if worker.poll() is not None]) and not ended.done():
                    raise RunFailed(f"a worker ended with status {dead[0].returncode}: see {settings.logs}")
        finally:
            ended.cancel()
    try:
        await ended
    except WorkflowFailureError as failure:
        raise _as_fault(failure, settings.logs) from failure


async def _require_known(run_id: str, settings: Settings, ledger: Ledger, address: str) -> None:
    """Raises UserFault where the run goes on and this server knows nothing of it: another one on this ledger does."""
    entry = ledger.run(run_id)
    state = None if entry is None else RunStates(ledger).of([entry])[run_id]
    if not isinstance(state, Running) or state.last is None:
        return
    client = await connect(address, settings.temporal_namespace)
    try:
        await client.get_workflow_handle(run_id).describe()
    except RPCError as error:
        if error.status is not RPCStatusCode.NOT_FOUND:
            raise
        silent_s = (datetime.now(UTC) - state.last.recorded_at).total_seconds()
        raise UserFault(
            f"{run_id}, the same request, goes on at another Temporal server than {address}: its last word in the "
            f"ledger is {silent_s:.0f} s old. Follow it there; where it was ended by force, ask again in "
            f"{(SILENT_S - silent_s) / 60:.0f} minutes"
        ) from error


async def _result(handle: WorkflowHandle[Any, Any], place: RunPlace) -> object:
    """Waits out a server that is started again. Raises TemporalUnavailable for one that stays away."""
    away_since = None
    while True:
        asked = time.monotonic()
        try:
            return await handle.result()
        except RPCError as error:
            if error.status not in _AWAY:
                raise
            # An answer that took long was one before it was none.
            away_since = asked if away_since is None or time.monotonic() - asked > AWAY_S / 2 else away_since
            if place.workers or time.monotonic() - away_since > AWAY_S:
                raise TemporalUnavailable(
                    f"the Temporal server at {place.address} went away ({error}): when it is back, the same command "
                    f"goes on with {handle.id}"
                ) from error
            await asyncio.sleep(1.0)


def _as_fault(failure: WorkflowFailureError, logs: Path) -> Exception:
    cause: BaseException | None = failure
    while cause is not None:
        if isinstance(cause, ApplicationError):
            if cause.type in USER_FAULTS:
                return UserFault(cause.message)
            return RunFailed(f"{cause.type}: {cause.message} (logs: {logs})")
        cause = cause.__cause__
    return RunFailed(f"{failure.cause or failure} (logs: {logs})")
