"""read_temporal: what a Temporal server says of its namespaces and task queues; read_retries: of what fails there."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import TypeVar

from temporalio.api.enums.v1 import TaskQueueType, WorkerStatus
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.api.workflowservice.v1 import (
    DescribeNamespaceRequest,
    DescribeTaskQueueRequest,
    ListNamespacesRequest,
    ListWorkersRequest,
)
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from candidates.record import Record
from compiler_agent.temporal_server import TemporalUnavailable
from compiler_agent.worker import connect

ASKED_S = 10.0
HEARD_WITHIN = timedelta(minutes=2)
"""The server lists a worker for five minutes after its last question; one that is there and free asks every minute, and
beats every minute, free or not."""
_MOST_WORKERS = 1000
_MOST_WORKFLOWS = 100

R = TypeVar("R")

_TYPES = (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)


class QueueStatus(Record):
    queue: str
    backlog: int
    """Tasks that wait for a worker, about."""
    workers: int
    """That were heard of lately."""


class TemporalStatus(Record):
    address: str
    namespace: str
    namespaces: tuple[str, ...]
    queues: tuple[QueueStatus, ...]


class Retry(Record):
    """An activity that has failed and is tried again."""

    workflow_id: str
    activity: str
    tries: int
    """The one that goes on or waits included."""
    failure: str
    """Of the last one: its type and message."""


def read_temporal(address: str, namespace: str, queues: Sequence[str]) -> TemporalStatus:
    """Raises TemporalUnavailable, also for a namespace that is not there."""

    async def read(client: Client) -> TemporalStatus:
        await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
        names, beating = await _namespaces(client), await _beating(client)
        described = await asyncio.gather(*(_describe(client, namespace, queue, beating) for queue in queues))
        return TemporalStatus(address=address, namespace=namespace, namespaces=names, queues=tuple(described))

    return asyncio.run(_ask(address, namespace, read))


def read_retries(address: str, namespace: str) -> tuple[Retry, ...]:
    """Of the newest workflows that go on. Raises TemporalUnavailable."""

    async def read(client: Client) -> tuple[Retry, ...]:
        ids = [each.id async for each in client.list_workflows("ExecutionStatus = 'Running'", limit=_MOST_WORKFLOWS)]
        described = await asyncio.gather(*(client.get_workflow_handle(each).describe() for each in ids))
        return tuple(
            Retry(
                workflow_id=workflow.id,
                activity=activity.activity_type.name,
                tries=activity.attempt,
                failure=f"{activity.last_failure.application_failure_info.type}: {activity.last_failure.message}",
            )
            for workflow in described
            for activity in workflow.raw_description.pending_activities
            if activity.HasField("last_failure")
        )

    return asyncio.run(_ask(address, namespace, read))


async def _ask(address: str, namespace: str, read: Callable[[Client], Awaitable[R]]) -> R:
    try:
        async with asyncio.timeout(ASKED_S):
            return await read(await connect(address, namespace))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise TemporalUnavailable(
                f"the Temporal server at {address} has no namespace {namespace}: make it, or set "
                "COMPILER_AGENT_TEMPORAL_NAMESPACE to one that it has"
            ) from error
        raise TemporalUnavailable(f"the Temporal server at {address} refuses: {error.message}") from error
    except TimeoutError as error:
        raise TemporalUnavailable(f"the Temporal server at {address} does not answer within {ASKED_S:g} s") from error


async def _namespaces(client: Client) -> tuple[str, ...]:
    """Ours alone where the server does not tell us of others."""
    try:
        listed = await client.workflow_service.list_namespaces(ListNamespacesRequest(page_size=1000))
    except RPCError:
        return (client.namespace,)
    return tuple(sorted(one.namespace_info.name for one in listed.namespaces))


async def _beating(client: Client) -> Sequence[WorkerHeartbeat]:
    """The latest heartbeat of each worker; none where the server keeps none."""
    asked = ListWorkersRequest(namespace=client.namespace, page_size=_MOST_WORKERS)
    try:
        listed = await client.workflow_service.list_workers(asked)
    except RPCError:
        return ()
    return [each.worker_heartbeat for each in listed.workers_info]


def heard_of(beating: Sequence[WorkerHeartbeat], queue: str, now: datetime) -> set[str]:
    """Identities of the queue's workers whose heart beat lately: one that is busy asks for no tasks."""
    return {
        one.worker_identity
        for one in beating
        if one.task_queue == queue
        and one.status == WorkerStatus.WORKER_STATUS_RUNNING
        and one.heartbeat_time.ToDatetime(tzinfo=UTC) >= now - HEARD_WITHIN
    }


async def _describe(client: Client, namespace: str, queue: str, beating: Sequence[WorkerHeartbeat]) -> QueueStatus:
    now = datetime.now(UTC)
    backlog, workers = 0, heard_of(beating, queue, now)
    for kind in _TYPES:
        said = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind, report_stats=True
            )
        )
        backlog += said.stats.approximate_backlog_count
        workers |= {
            poller.identity
            for poller in said.pollers
            if poller.last_access_time.ToDatetime(tzinfo=UTC) >= now - HEARD_WITHIN
        }
    return QueueStatus(queue=queue, backlog=backlog, workers=len(workers))
