"""PromoteKernels: kernels that won outside of a run, on an earlier run's traffic, into a build like a run's own."""

from temporalio import workflow

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import ShipInput, ShippedBuild
    from workflows.ship_winner import ShipWinner


@workflow.defn
class PromoteKernels:
    @workflow.run
    async def run(self, ship: ShipInput) -> ShippedBuild:
        await perform("gather_wins", ship, queues.SHIP)
        return await workflow.execute_child_workflow(
            ShipWinner.run, ship, id=f"{ship.run_id}/ship", task_queue=queues.CONTROL
        )
