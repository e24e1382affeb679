"""Schedules: nightly runs on a Temporal server, one for each model, trace source and device.

What there may be only one of is the schedule's id, so that the server refuses a second one, however many machines ask
at once. Nights of one schedule never overlap: one that is due while another goes on is left out.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TypeVar

from temporalio.client import (
    Client,
    Schedule,
    ScheduleActionExecutionStartWorkflow,
    ScheduleActionStartWorkflow,
    ScheduleAlreadyRunningError,
    ScheduleDescription,
    ScheduleHandle,
    ScheduleOverlapPolicy,
    SchedulePolicy,
    ScheduleSpec,
    ScheduleState,
    ScheduleUpdate,
    ScheduleUpdateInput,
)
from temporalio.service import RPCError, RPCStatusCode

from candidates.nightly import SCHEDULE_PREFIX, NightlySchedule
from compiler_agent.outcome import UserFault
from compiler_agent.program_health import find_up
from compiler_agent.settings import Settings
from compiler_agent.worker import connect
from workflows import queues
from workflows.nightly_run import NightlyRun

R = TypeVar("R")

_LISTED_LATE_S = 3.0
"""A server may list a new schedule only after a moment."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownSchedule:
    schedule: NightlySchedule
    is_paused: bool
    note: str
    next_at: tuple[datetime, ...]
    going_on: str | None
    """Id of the night that goes on."""
    left_out: int
    """Nights that were due while another went on."""
    missed: int
    """Nights that could not begin within the catch-up window."""


def with_schedules(settings: Settings, work: Callable[["Schedules"], Awaitable[R]]) -> R:
    """What `work` comes to. Raises UserFault and TemporalUnavailable."""
    up = find_up(settings.home)
    address = settings.temporal_address or (None if up is None else up.service.temporal_address)
    if address is None:
        raise UserFault(
            f"schedules live on a Temporal server that stays, and nothing serves {settings.home}: start "
            "`compiler-agent up`, or name the home (COMPILER_AGENT_CONFIG or COMPILER_AGENT_HOME) that is served, or a "
            "server's host:port (COMPILER_AGENT_TEMPORAL)"
        )

    async def do() -> R:
        return await work(Schedules(await connect(address, settings.temporal_namespace)))

    try:
        return asyncio.run(do())
    except RPCError as error:
        fault = _as_fault(error, address, settings.temporal_namespace)
        if fault is None:
            raise
        raise fault from error


class Schedules:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, schedule: NightlySchedule) -> KnownSchedule:
        """Raises UserFault: there is one of this name, or for the same model, source and device, or its time is none
        that ever comes."""
        for known in await self.list():
            if known.schedule.name == schedule.name and known.schedule.id != schedule.id:
                raise UserFault(f"there is a schedule {schedule.name} already: give another name, or delete it")
        try:
            handle = await self._client.create_schedule(schedule.id, _as_temporal(schedule))
        except ScheduleAlreadyRunningError:
            other = _read(await self._client.get_schedule_handle(schedule.id).describe(), self._client)
            raise UserFault(
                f"{(await other).schedule.name} runs {schedule.template.model} on this source and device already: "
                "change or delete that one"
            ) from None
        created = await _read(await handle.describe(), self._client)
        if not created.next_at:
            await handle.delete()
            raise UserFault(f"{schedule.cron!r} never comes: give minute, hour, day, month, day of the week")
        return created

    async def list(self) -> tuple[KnownSchedule, ...]:
        """By name."""
        ids = [
            listed.id async for listed in await self._client.list_schedules() if listed.id.startswith(SCHEDULE_PREFIX)
        ]
        described = await asyncio.gather(*(self._describe(each) for each in ids))
        return tuple(sorted((each for each in described if each is not None), key=lambda each: each.schedule.name))

    async def find(self, name: str) -> KnownSchedule:
        """Raises UserFault."""
        deadline = asyncio.get_running_loop().time() + _LISTED_LATE_S
        while True:
            all_of_them = await self.list()
            found = [each for each in all_of_them if name in (each.schedule.name, each.schedule.id)]
            if len(found) == 1:
                return found[0]
            if found:
                ids = ", ".join(each.schedule.id for each in found)
                raise UserFault(f"several schedules are called {name}: give an id ({ids})")
            if asyncio.get_running_loop().time() > deadline:
                names = ", ".join(each.schedule.name for each in all_of_them) or "none"
                raise UserFault(f"no schedule {name}: there are {names}")
            await asyncio.sleep(0.2)

    async def pause(self, name: str, note: str | None) -> None:
        await (await self._handle(name)).pause(note=note)

    async def unpause(self, name: str, note: str | None) -> None:
        await (await self._handle(name)).unpause(note=note)

    async def delete(self, name: str) -> None:
        """A night that goes on goes on."""
        await (await self._handle(name)).delete()

    async def trigger(self, name: str) -> bool:
        """False: a night goes on, and nothing was begun."""
        known = await self.find(name)
        if known.going_on is not None:
            return False
        # Between the two another may begin: then the server leaves this one out.
        await self._client.get_schedule_handle(known.schedule.id).trigger(overlap=ScheduleOverlapPolicy.SKIP)
        return True

    async def change_time(self, name: str, changes: dict[str, str | float]) -> KnownSchedule:
        """`changes` of a schedule's cron, time_zone, jitter_s and catch_up_s."""

        async def change(asked: ScheduleUpdateInput) -> ScheduleUpdate:
            known = await _read(asked.description, self._client)
            changed = _as_temporal(known.schedule.model_copy(update=changes))
            changed.state = asked.description.schedule.state
            return ScheduleUpdate(schedule=changed)

        handle = await self._handle(name)
        await handle.update(change)
        return await _read(await handle.describe(), self._client)

    async def _handle(self, name: str) -> ScheduleHandle:
        return self._client.get_schedule_handle((await self.find(name)).schedule.id)

    async def _describe(self, schedule_id: str) -> KnownSchedule | None:
        """None: it was deleted since it was listed."""
        try:
            return await _read(await self._client.get_schedule_handle(schedule_id).describe(), self._client)
        except RPCError as error:
            if error.status is RPCStatusCode.NOT_FOUND:
                return None
            raise


def _as_temporal(schedule: NightlySchedule) -> Schedule:
    return Schedule(
        action=ScheduleActionStartWorkflow(NightlyRun.run, schedule, id=schedule.id, task_queue=queues.CONTROL),
        spec=ScheduleSpec(
            cron_expressions=[schedule.cron],
            time_zone_name=schedule.time_zone,
            jitter=timedelta(seconds=schedule.jitter_s),
        ),
        policy=SchedulePolicy(
            overlap=ScheduleOverlapPolicy.SKIP, catchup_window=timedelta(seconds=schedule.catch_up_s)
        ),
        state=ScheduleState(),
    )


async def _read(described: ScheduleDescription, client: Client) -> KnownSchedule:
    action = described.schedule.action
    assert isinstance(action, ScheduleActionStartWorkflow)
    payloads: Sequence[object] = action.args
    (schedule,) = await client.data_converter.decode(payloads, [NightlySchedule])  # type: ignore[arg-type]
    running = [
        action.workflow_id
        for action in described.info.running_actions
        if isinstance(action, ScheduleActionExecutionStartWorkflow)
    ]
    state, info = described.schedule.state, described.info
    return KnownSchedule(
        schedule=schedule,
        is_paused=state.paused,
        note=state.note or "",
        next_at=tuple(info.next_action_times),
        going_on=running[0] if running else None,
        left_out=info.num_actions_skipped_overlap,
        missed=info.num_actions_missed_catchup_window,
    )


def _as_fault(error: RPCError, address: str, namespace: str) -> UserFault | None:
    match error.status:
        case RPCStatusCode.INVALID_ARGUMENT:
            return UserFault(f"the server does not take this schedule: {error.message}")
        case RPCStatusCode.NOT_FOUND:
            return UserFault(f"{error.message} (at {address}, namespace {namespace})")
        case RPCStatusCode.UNAVAILABLE | RPCStatusCode.DEADLINE_EXCEEDED:
            return UserFault(f"the Temporal server at {address} does not answer: {error.message}")
        case RPCStatusCode.PERMISSION_DENIED | RPCStatusCode.UNAUTHENTICATED:
            return UserFault(f"the Temporal server at {address} refuses: {error.message}")
        case _:
            return None
