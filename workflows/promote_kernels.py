"""PromoteKernels: kernels that won outside of a run, on an earlier run's traffic, into a build like a run's own."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import ShipInput, ShippedBuild
    from workflows.ship_winner import ShipWinner


@workflow.defn
class PromoteKernels:
    @workflow.run
    async def run(self, ship: ShipInput) -> ShippedBuild:
        await workflow.execute_activity(
            "gather_wins",
            ship,
            task_queue=queues.SHIP,
            start_to_close_timeout=timedelta(minutes=5),
            retry_policy=RETRY,
        )
        return await workflow.execute_child_workflow(
            ShipWinner.run, ship, id=f"{ship.run_id}/ship", task_queue=queues.CONTROL
        )
