"""ShipWinner: winners into a serving build, the build through its end-to-end gate, and live only if approved."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import ShipInput, ShippedBuild


@workflow.defn
class ShipWinner:
    @workflow.run
    async def run(self, ship: ShipInput) -> ShippedBuild:
        build: ShippedBuild = await workflow.execute_activity(
            "assemble_build",
            ship,
            result_type=ShippedBuild,
            task_queue=queues.SHIP,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RETRY,
        )
        await workflow.execute_activity(
            "gate_build",
            ship,
            task_queue=queues.device_queue(ship.device_id),
            start_to_close_timeout=timedelta(hours=1),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
        await workflow.execute_activity(
            "conclude_run",
            ship,
            task_queue=queues.SHIP,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RETRY,
        )
        return build
