"""ShipWinner: winners, and what of the live build still holds, into a build; through its gate; live if approved."""

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
        if workflow.patched("check-live"):
            await workflow.execute_activity(
                "check_live",
                ship,
                task_queue=queues.device_queue(ship.device_id),
                start_to_close_timeout=timedelta(minutes=30),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
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
