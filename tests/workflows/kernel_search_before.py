"""KernelSearch as it was before it asked for compiler reports; such runs may be in flight when workers are replaced."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import Generation, ProposeInput, SearchInput, SearchOutcome, SettleInput


@workflow.defn(name="KernelSearch")
class KernelSearchBefore:
    """One agent that stops at its first round."""

    @workflow.run
    async def run(self, search: SearchInput) -> SearchOutcome:
        generation = await workflow.execute_activity(
            "propose",
            ProposeInput(
                run_id=search.run_id,
                task_id=search.task_id,
                agent=search.agents[0],
                round_number=0,
                models=search.models,
                seconds_left=search.seconds,
                attempts_left=search.attempts,
            ),
            result_type=Generation,
            task_queue=queues.AUTHOR,
            start_to_close_timeout=timedelta(hours=2),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
        await workflow.execute_activity(
            "settle_winner",
            SettleInput(run_id=search.run_id, task_id=search.task_id, stop_reason=generation.stop_reason or ""),
            task_queue=queues.device_queue(search.device_id),
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
        return SearchOutcome(tried=0)
