"""KernelSearch: generations of candidates for one hot op until an agent or the budget says stop, then the race."""

from datetime import timedelta

from temporalio import workflow

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import (
        Generation,
        GenerationOutcome,
        ProposeInput,
        SearchInput,
        SearchOutcome,
        SettleInput,
    )


@workflow.defn
class KernelSearch:
    @workflow.run
    async def run(self, search: SearchInput) -> SearchOutcome:
        self._tried = 0
        stop_reason = "no agent"
        for agent in search.agents:
            stop_reason = await self._search_with(agent, search)
        await workflow.execute_activity(
            "settle_winner",
            SettleInput(run_id=search.run_id, task_id=search.task_id, stop_reason=stop_reason),
            task_queue=queues.device_queue(search.device_id),
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
        return SearchOutcome(tried=self._tried)

    async def _search_with(self, agent: str, search: SearchInput) -> str:
        """Why the agent's search stopped."""
        # Time is what activities worked, not what the calendar says: a run that was stopped overnight has not spent it.
        spent_s = 0.0
        while True:
            seconds_left, attempts_left = search.seconds - spent_s, search.attempts - self._tried
            if seconds_left <= 0 or attempts_left <= 0:
                return "budget: " + ("time is spent" if seconds_left <= 0 else f"{search.attempts} attempts made")
            generation: Generation = await workflow.execute_activity(
                "propose",
                ProposeInput(
                    run_id=search.run_id,
                    task_id=search.task_id,
                    agent=agent,
                    seconds_left=seconds_left,
                    attempts_left=attempts_left,
                ),
                result_type=Generation,
                task_queue=queues.AUTHOR,
                start_to_close_timeout=timedelta(minutes=10),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
            if generation.stop_reason is not None:
                return generation.stop_reason
            build_s: float = await workflow.execute_activity(
                "build_generation",
                generation,
                result_type=float,
                task_queue=queues.BUILD,
                start_to_close_timeout=timedelta(minutes=10),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
            outcome: GenerationOutcome = await workflow.execute_activity(
                "evaluate_generation",
                generation,
                result_type=GenerationOutcome,
                task_queue=queues.device_queue(search.device_id),
                start_to_close_timeout=timedelta(minutes=10),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
            self._tried = outcome.tried
            spent_s += generation.wall_s + build_s + outcome.wall_s
