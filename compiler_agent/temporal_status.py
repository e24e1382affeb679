"""read_temporal: what a Temporal server says of its namespaces and task queues."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeNamespaceRequest, DescribeTaskQueueRequest, ListNamespacesRequest
from temporalio.client import Client
from temporalio.service import RPCError, RPCStatusCode

from candidates.record import Record
from compiler_agent.temporal_server import TemporalUnavailable
from compiler_agent.worker import connect

ASKED_S = 10.0
POLLED_WITHIN = timedelta(minutes=2)
"""The server lists a worker for five minutes after its last question; one that is there asks every minute."""

_TYPES = (TaskQueueType.TASK_QUEUE_TYPE_WORKFLOW, TaskQueueType.TASK_QUEUE_TYPE_ACTIVITY)


class QueueStatus(Record):
    queue: str
    backlog: int
    """Tasks that wait for a worker, about."""
    workers: int
    """That have asked for tasks lately."""


class TemporalStatus(Record):
    address: str
    namespace: str
    namespaces: tuple[str, ...]
    queues: tuple[QueueStatus, ...]


def read_temporal(address: str, namespace: str, queues: Sequence[str]) -> TemporalStatus:
    """Raises TemporalUnavailable, also for a namespace that is not there."""
    return asyncio.run(_read(address, namespace, queues))


async def _read(address: str, namespace: str, queues: Sequence[str]) -> TemporalStatus:
    try:
        async with asyncio.timeout(ASKED_S):
            client = await connect(address, namespace)
            await client.workflow_service.describe_namespace(DescribeNamespaceRequest(namespace=namespace))
            names = await _namespaces(client)
            described = await asyncio.gather(*(_describe(client, namespace, queue) for queue in queues))
    except RPCError as error:
        if error.status is RPCStatusCode.NOT_FOUND:
            raise TemporalUnavailable(
                f"the Temporal server at {address} has no namespace {namespace}: make it, or set "
                "COMPILER_AGENT_TEMPORAL_NAMESPACE to one that it has"
            ) from error
        raise TemporalUnavailable(f"the Temporal server at {address} refuses: {error.message}") from error
    except TimeoutError as error:
        raise TemporalUnavailable(f"the Temporal server at {address} does not answer within {ASKED_S:g} s") from error
    return TemporalStatus(address=address, namespace=namespace, namespaces=names, queues=tuple(described))


async def _namespaces(client: Client) -> tuple[str, ...]:
    """Ours alone where the server does not tell us of others."""
    try:
        listed = await client.workflow_service.list_namespaces(ListNamespacesRequest(page_size=1000))
    except RPCError:
        return (client.namespace,)
    return tuple(sorted(one.namespace_info.name for one in listed.namespaces))


async def _describe(client: Client, namespace: str, queue: str) -> QueueStatus:
    backlog, workers = 0, set()
    for kind in _TYPES:
        said = await client.workflow_service.describe_task_queue(
            DescribeTaskQueueRequest(
                namespace=namespace, task_queue=TaskQueue(name=queue), task_queue_type=kind, report_stats=True
            )
        )
        backlog += said.stats.approximate_backlog_count
        since = datetime.now(UTC) - POLLED_WITHIN
        workers |= {
            poller.identity for poller in said.pollers if poller.last_access_time.ToDatetime(tzinfo=UTC) >= since
        }
    return QueueStatus(queue=queue, backlog=backlog, workers=len(workers))
