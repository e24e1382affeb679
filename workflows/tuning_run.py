"""TuningRun: from a traffic trace to a gated serving build."""

from temporalio import workflow

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.kernel_search import KernelSearch
    from workflows.payloads import RunInput, SearchPlan, ShipInput, ShippedBuild
    from workflows.ship_winner import ShipWinner


@workflow.defn
class TuningRun:
    @workflow.run
    async def run(self, run: RunInput) -> ShippedBuild:
        device = queues.device_queue(run.device_id)
        await perform("measure_device", run, device)
        await perform("replay_traffic", run, queues.CONTROL)
        plan = await perform("rank_hot_ops", run, device, SearchPlan)
        searched = 0
        for search in plan.searches:
            if searched == plan.limit:
                break
            outcome = await workflow.execute_child_workflow(
                KernelSearch.run, search, id=f"{run.run_id}/search/{search.task_id[:16]}", task_queue=queues.CONTROL
            )
            searched += outcome.tried > 0
        return await workflow.execute_child_workflow(
            ShipWinner.run,
            ShipInput(run_id=run.run_id, device_id=run.device_id),
            id=f"{run.run_id}/ship",
            task_queue=queues.CONTROL,
        )
