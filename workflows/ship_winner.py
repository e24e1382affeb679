"""ShipWinner: winners, and what of the live build still holds, into a build; through its gate; live if approved.

Then it is proposed: whether pull requests are opened is the ship worker's setting, and the last activity does nothing
where it is off.
"""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError

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
        if workflow.patched("pull-requests"):
            await self._propose(ship)
        return build

    async def _propose(self, ship: ShipInput) -> None:
        """A forge that cannot be reached takes nothing from a run that has ended well; `pr open` does it later."""
        try:
            await workflow.execute_activity(
                "propose_pull_requests",
                ship,
                task_queue=queues.SHIP,
                start_to_close_timeout=timedelta(minutes=30),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
        except ActivityError as error:
            workflow.logger.warning("pull requests of %s were not opened: %s", ship.run_id, error.cause)
