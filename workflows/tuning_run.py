"""TuningRun: from a traffic trace to a gated serving build."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.kernel_search import KernelSearch
    from workflows.payloads import RunInput, SearchPlan, ShipInput, ShippedBuild
    from workflows.ship_winner import ShipWinner


@workflow.defn
class TuningRun:
    @workflow.run
    async def run(self, run: RunInput) -> ShippedBuild:
        for activity, queue in (
            ("measure_device", queues.device_queue(run.device_id)),
            ("replay_traffic", queues.CONTROL),
        ):
            await workflow.execute_activity(
                activity,
                run,
                task_queue=queue,
                start_to_close_timeout=timedelta(minutes=30),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
        plan: SearchPlan = await workflow.execute_activity(
            "rank_hot_ops",
            run,
            result_type=SearchPlan,
            task_queue=queues.device_queue(run.device_id),
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
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
