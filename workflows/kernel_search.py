"""KernelSearch: generations of candidates for one hot op until its agents or the budget say stop, then the race."""

from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from workflows import queues
from workflows.retries import HEARTBEAT_TIMEOUT, RETRY

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import (
        Generation,
        GenerationOutcome,
        ProposeInput,
        ReportInput,
        SearchInput,
        SearchOutcome,
        SettleInput,
    )

PROPOSE_TIMEOUT = timedelta(hours=2)
"""An activity that is given up while its thread waits for a model is begun again beside it, and pays a second time. A
dead worker is noticed by its missing heartbeats."""


@workflow.defn
class KernelSearch:
    """Agents come one after the other; agent i of n stops when i + 1 n-ths of time and attempts are spent."""

    @workflow.run
    async def run(self, search: SearchInput) -> SearchOutcome:
        self._tried = 0
        # Time is what activities worked, not what the calendar says: a run that was stopped overnight has not spent it.
        self._spent_s = 0.0
        stop_reasons = [await self._search_with(number, search) for number in range(len(search.agents))]
        await workflow.execute_activity(
            "settle_winner",
            SettleInput(
                run_id=search.run_id,
                task_id=search.task_id,
                stop_reason=_in_words(search.agents, stop_reasons),
                last_stage=search.last_stage,
            ),
            task_queue=queues.device_queue(search.device_id),
            start_to_close_timeout=timedelta(minutes=30),
            heartbeat_timeout=HEARTBEAT_TIMEOUT,
            retry_policy=RETRY,
        )
        if workflow.patched("report-best"):
            await self._report_best(search)
        return SearchOutcome(tried=self._tried)

    async def _report_best(self, search: SearchInput) -> None:
        """For readers alone: a search that has ended well loses nothing where there is no report."""
        try:
            await workflow.execute_activity(
                "report_best",
                ReportInput(run_id=search.run_id, task_id=search.task_id),
                task_queue=queues.BUILD,
                schedule_to_close_timeout=timedelta(minutes=15),
                start_to_close_timeout=timedelta(minutes=5),
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("no compiler report for %s of %s: %s", search.op, search.run_id, error.cause)

    async def _search_with(self, number: int, search: SearchInput) -> str:
        """Why the agent of this number stopped."""
        seconds = search.seconds * (number + 1) / len(search.agents)
        attempts = search.attempts * (number + 1) // len(search.agents)
        round_number = 0
        while True:
            seconds_left, attempts_left = seconds - self._spent_s, attempts - self._tried
            if seconds_left <= 0 or attempts_left <= 0:
                return "budget: " + ("time is spent" if seconds_left <= 0 else f"{attempts} attempts made")
            generation: Generation = await workflow.execute_activity(
                "propose",
                ProposeInput(
                    run_id=search.run_id,
                    task_id=search.task_id,
                    agent=search.agents[number],
                    round_number=round_number,
                    models=search.models,
                    seconds_left=seconds_left,
                    attempts_left=attempts_left,
                    recalls_past=search.recalls_past,
                ),
                result_type=Generation,
                task_queue=queues.AUTHOR,
                start_to_close_timeout=PROPOSE_TIMEOUT,
                heartbeat_timeout=HEARTBEAT_TIMEOUT,
                retry_policy=RETRY,
            )
            self._spent_s += generation.wall_s
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
            self._spent_s += build_s + outcome.wall_s
            round_number += 1


def _in_words(agents: tuple[str, ...], stop_reasons: list[str]) -> str:
    if len(agents) == 1:
        return stop_reasons[0]
    return "; ".join(f"{agent}: {reason}" for agent, reason in zip(agents, stop_reasons, strict=True))
