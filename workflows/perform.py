"""perform: an activity by its name, with the time, the heartbeat and the tries that all calls of it have."""

from datetime import timedelta
from typing import TypeVar, overload

from temporalio import workflow

from workflows.retries import HEARTBEAT_TIMEOUT, LONGEST, RETRY

with workflow.unsafe.imports_passed_through():
    from candidates.record import Record

R = TypeVar("R", bound=Record | float)


@overload
async def perform(name: str, argument: Record | str, queue: str, *, within: timedelta | None = None) -> None: ...


@overload
async def perform(
    name: str, argument: Record | str, queue: str, result_type: type[R], *, within: timedelta | None = None
) -> R: ...


async def perform(
    name: str,
    argument: Record | str,
    queue: str,
    result_type: type[R] | None = None,
    *,
    within: timedelta | None = None,
) -> R | None:
    """`within`: all tries together, waiting for a worker included; None: for as long as it takes."""
    result: R | None = await workflow.execute_activity(
        name,
        argument,
        result_type=result_type,
        task_queue=queue,
        schedule_to_close_timeout=within,
        start_to_close_timeout=LONGEST[name],
        heartbeat_timeout=HEARTBEAT_TIMEOUT,
        retry_policy=RETRY,
    )
    return result
