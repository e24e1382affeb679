"""What `status` asks a Temporal server."""

import asyncio
from datetime import UTC, datetime, timedelta

from temporalio import activity, workflow
from temporalio.api.enums.v1 import WorkerStatus
from temporalio.api.worker.v1 import WorkerHeartbeat
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from compiler_agent.temporal_status import HEARD_WITHIN, heard_of, read_retries, read_temporal
from compiler_agent.worker import connect

QUEUE = "device-told"
NOW = datetime(2026, 12, 1, 4, tzinfo=UTC)


@activity.defn
async def measure() -> None:
    if activity.info().attempt == 1:
        raise ApplicationError("200 pairs were preempted", type="MachineTooBusy")
    while True:
        activity.heartbeat()
        await asyncio.sleep(0.2)


@workflow.defn(sandboxed=False)
class Measures:
    @workflow.run
    async def run(self) -> None:
        await workflow.execute_activity(
            measure, start_to_close_timeout=timedelta(minutes=5), heartbeat_timeout=timedelta(seconds=5)
        )


def test_an_activity_that_is_tried_again_is_told_with_its_failure(server_address):
    async def until_tried_again():
        client = await connect(server_address, "default")
        async with Worker(client, task_queue=QUEUE, workflows=[Measures], activities=[measure]):
            handle = await client.start_workflow(Measures.run, id="measures", task_queue=QUEUE)
            try:
                while not (told := await asyncio.to_thread(read_retries, server_address, "default")):
                    await asyncio.sleep(0.2)
            finally:
                await handle.terminate()
            return told

    (told,) = asyncio.run(asyncio.wait_for(until_tried_again(), timeout=60.0))
    assert (told.workflow_id, told.activity, told.tries) == ("measures", "measure", 2)
    assert told.failure == "MachineTooBusy: 200 pairs were preempted"
    assert read_temporal(server_address, "default", [QUEUE]).queues[0].workers == 1


def beat(identity, age=timedelta(), status=WorkerStatus.WORKER_STATUS_RUNNING, queue=QUEUE):
    heartbeat = WorkerHeartbeat(worker_identity=identity, task_queue=queue, status=status)
    heartbeat.heartbeat_time.FromDatetime(NOW - age)
    return heartbeat


def test_workers_are_known_by_heartbeats_that_are_fresh():
    beats = [
        beat("busy", age=HEARD_WITHIN / 2),
        beat("killed", age=HEARD_WITHIN * 2),
        beat("ending", status=WorkerStatus.WORKER_STATUS_SHUTTING_DOWN),
        beat("elsewhere", queue="author"),
    ]
    assert heard_of(beats, QUEUE, NOW) == {"busy"}
