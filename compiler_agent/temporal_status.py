"""read_temporal: what a Temporal server says of its namespaces and task queues."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from temporalio.api.enums.v1 import TaskQueueType
from temporalio.api.taskqueue.v1 import TaskQueue
from temporalio.api.workflowservice.v1 import DescribeTaskQueueRequest, ListNamespacesRequest
from temporalio.client import Client
from temporalio.service import RPCError

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
            listed = await client.workflow_service.list_namespaces(ListNamespacesRequest(page_size=1000))
            names = tuple(sorted(one.namespace_info.name for one in listed.namespaces))
            if namespace not in names:
                raise TemporalUnavailable(
                    f"the Temporal server at {address} has no namespace {namespace}, it has {', '.join(names)}: "
                    "set COMPILER_AGENT_TEMPORAL_NAMESPACE"
                )
            described = await asyncio.gather(*(_describe(client, namespace, queue) for queue in queues))
    except (RPCError, TimeoutError) as error:
        raise TemporalUnavailable(f"the Temporal server at {address} does not answer ({error or 'in time'})") from error
    return TemporalStatus(address=address, namespace=namespace, namespaces=names, queues=tuple(described))


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
