"""read_service_status: how the service is, from what each part of it says, and what of it is missing."""

import shutil
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from typing import TypeVar

from sqlalchemy import inspect, select, text

from candidates.ceilings import fingerprint_device
from candidates.ledger.ledger import Ledger, RecordedProgress
from candidates.ledger.run_states import Failed, Running, RunState, RunStates, Stopped
from candidates.ledger.tables import DeviceRow
from candidates.record import Record
from candidates.serving_build.build import Build
from candidates.serving_build.builds import BuildStore
from compiler_agent.local_service import other_settings
from compiler_agent.machine import FREE_BYTES_NEEDED
from compiler_agent.outcome import UserFault
from compiler_agent.program_health import ProgramState, UpHealth, find_up
from compiler_agent.settings import Settings
from compiler_agent.temporal_server import TemporalUnavailable
from compiler_agent.temporal_status import TemporalStatus, read_temporal
from compiler_agent.user_faults import as_user_fault
from workflows.queues import AUTHOR, BUILD, CONTROL, SHIP, device_queue

SHOWN_RUNS = 5
_NEEDED = (CONTROL, AUTHOR, BUILD, SHIP)

Part = TypeVar("Part")


class RunStatus(Record):
    run_id: str
    started_at: datetime
    state: str
    """As `RunStates` tells them: running, ended, stopped, failed."""
    message: str
    """Of a failure, or the latest progress; of a run that says nothing any more, since when."""


class LedgerStatus(Record):
    revision: str | None
    """Of its tables, where it keeps one."""
    devices: tuple[str, ...]
    """That kernels were ever measured on."""
    runs: tuple[RunStatus, ...]
    """The newest first."""


class ServiceStatus(Record):
    home: str
    free_bytes: int
    up: UpHealth | None
    """None: no `up` has this home; the service may run elsewhere all the same."""
    temporal: TemporalStatus | None
    ledger: LedgerStatus | None
    live_build: str | None
    problems: tuple[str, ...]
    """What is needed and missing; none: the service is healthy."""


def read_service_status(settings: Settings) -> ServiceStatus:
    """Raises UserFault where there is no home to read."""
    if not settings.home.is_dir():
        raise UserFault(f"there is no home {settings.home}: set COMPILER_AGENT_HOME to that of the service")
    up, free_bytes = find_up(settings.home), shutil.disk_usage(settings.home).free
    ledger, build = _try(lambda: _read_ledger(settings)), _try(BuildStore(settings.home).live)
    devices = ledger.devices if isinstance(ledger, LedgerStatus) else ()
    temporal = _try(lambda: _read_temporal(settings, up, devices))
    problems = [part for part in (temporal, ledger, build) if isinstance(part, str)]
    if isinstance(temporal, TemporalStatus):
        problems += _not_served(temporal)
    if free_bytes < FREE_BYTES_NEEDED:
        problems.append(f"{settings.home} has {free_bytes / 2**30:.1f} GiB free: {FREE_BYTES_NEEDED >> 30} are needed")
    if up is not None:
        programs = [program for program in up.programs if program.state is not ProgramState.READY]
        problems += [f"{program.name} is {program.state}: see {program.log}" for program in programs]
        if differing := other_settings(settings, up):
            problems.append(f"`up` (pid {up.pid}) serves with another {', '.join(differing)} than is asked about here")
    return ServiceStatus(
        home=str(settings.home),
        free_bytes=free_bytes,
        up=up,
        temporal=temporal if isinstance(temporal, TemporalStatus) else None,
        ledger=ledger if isinstance(ledger, LedgerStatus) else None,
        live_build=build.id if isinstance(build, Build) else None,
        problems=tuple(problems),
    )


def _try(read: Callable[[], Part]) -> Part | str:
    """What it reads, or what is wrong and the user's to mend."""
    try:
        return read()
    except Exception as error:
        if (fault := as_user_fault(error)) is None:
            raise
        return fault


def _read_ledger(settings: Settings) -> LedgerStatus:
    ledger = Ledger(settings.ledger_url)
    try:
        return _of_ledger(ledger)
    finally:
        ledger.engine.dispose()  # whoever asks again and again would fill the database with connections


def _of_ledger(ledger: Ledger) -> LedgerStatus:
    runs = ledger.runs(limit=SHOWN_RUNS)
    states = RunStates(ledger).of(runs)
    with ledger.reader.connect() as connection:
        has_revision = inspect(connection).has_table("alembic_version")
        revision = connection.scalar(text("SELECT version_num FROM alembic_version")) if has_revision else None
        devices = tuple(connection.scalars(select(DeviceRow.device_id).order_by(DeviceRow.sequence)))
    return LedgerStatus(
        revision=revision,
        devices=devices,
        runs=tuple(
            RunStatus(
                run_id=run.run_id,
                started_at=run.started_at,
                state=states[run.run_id].word,
                message=_message(states[run.run_id]),
            )
            for run in runs
        ),
    )


def _message(state: RunState) -> str:
    match state:
        case Failed(message=message):
            return message
        case Running(last=RecordedProgress(progress=progress)):
            return f"{progress.stage}: {progress.message}"
        case Stopped(since=since):
            return f"no progress since {since:%Y-%m-%d %H:%M}Z"
        case _:
            return ""


def _read_temporal(settings: Settings, up: UpHealth | None, devices: Sequence[str]) -> TemporalStatus:
    address = settings.temporal_address or (up.service.temporal_address if up is not None else None)
    if address is None:
        raise TemporalUnavailable(
            f"nothing serves {settings.home}: start `compiler-agent up`, or set COMPILER_AGENT_TEMPORAL to a cluster"
        )
    ours = fingerprint_device().id
    names = [*_NEEDED, *(device_queue(device) for device in dict.fromkeys((ours, *devices)))]
    status = read_temporal(address, settings.temporal_namespace, names)
    # Of devices that once were, such as this one with an older compiler, nothing is worth telling.
    kept = [one for one in status.queues if one.workers or one.backlog or not one.queue.startswith(device_queue(""))]
    return status.model_copy(update={"queues": tuple(kept)})


def _not_served(temporal: TemporalStatus) -> Iterator[str]:
    for one in temporal.queues:
        if not one.workers:
            waiting = f", {one.backlog} tasks wait" if one.backlog else ""
            yield f"no worker serves the queue {one.queue}{waiting}: start `compiler-agent up` or worker"
    if not any(one.queue.startswith(device_queue("")) for one in temporal.queues):
        yield "no worker serves any device: start `compiler-agent worker --queue device` on one"
