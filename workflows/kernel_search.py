"""KernelSearch: generations of candidates for one hot op until its agents or the budget say stop, then the race."""

import asyncio
from dataclasses import dataclass
from datetime import timedelta

from temporalio import workflow
from temporalio.exceptions import ActivityError, is_cancelled_exception

from workflows import queues
from workflows.perform import perform

with workflow.unsafe.imports_passed_through():
    from workflows.payloads import (
        Generation,
        GenerationOutcome,
        ProposeInput,
        ReportInput,
        SearchInput,
        SearchOutcome,
        SearchSoFar,
        SettleInput,
    )


@workflow.defn
class KernelSearch:
    """Agents come one after the other; agent i of n stops when i + 1 n-ths of time and attempts are spent.

    Of an agent that goes ahead, one generation is proposed and compiled while the one before it is judged and measured.
    A search whose history has grown long goes on in a new one, which is told how far it is.
    """

    @workflow.run
    async def run(self, search: SearchInput) -> SearchOutcome:
        so_far = search.so_far
        self._tried = so_far.tried
        # Time is what activities worked, not what the calendar says: a run that was stopped overnight has not spent it.
        self._spent_s = so_far.spent_s
        self._stop_reasons = list(so_far.stop_reasons)
        self._round_number = so_far.round_number
        for number in range(len(self._stop_reasons), len(search.agents)):
            self._stop_reasons.append(await self._search_with(number, search))
            self._round_number = 0
        settle = SettleInput(
            run_id=search.run_id,
            task_id=search.task_id,
            stop_reason=_in_words(search.agents, self._stop_reasons),
            last_stage=search.last_stage,
        )
        await perform("settle_winner", settle, queues.device_queue(search.device_id))
        if workflow.patched("report-best"):
            await self._report_best(search)
        return SearchOutcome(tried=self._tried)

    async def _report_best(self, search: SearchInput) -> None:
        """For readers alone: a search that has ended well loses nothing where there is no report."""
        ask = ReportInput(run_id=search.run_id, task_id=search.task_id)
        try:
            await perform("report_best", ask, queues.BUILD, within=timedelta(minutes=15))
        except ActivityError as error:
            if is_cancelled_exception(error):
                raise
            workflow.logger.warning("no compiler report for %s of %s: %s", search.op, search.run_id, error.cause)

    async def _search_with(self, number: int, search: SearchInput) -> str:
        """Why the agent of this number stopped."""
        built: Generation | None = None
        while True:
            if built is None:
                made = await self._make(number, search)
                self._spent_s += made.wall_s
                if isinstance(made.reply, str):
                    return made.reply
                built = made.reply
            device = queues.device_queue(search.device_id)
            evaluating = perform("evaluate_generation", built, device, GenerationOutcome)
            if built.may_go_ahead and not workflow.info().is_continue_as_new_suggested():
                outcome, ahead = await asyncio.gather(evaluating, self._make(number, search, built.proposals))
                self._spent_s += max(outcome.wall_s, ahead.wall_s)
                # What it said without knowing these results is no reason to stop: it is asked again.
                built = None if isinstance(ahead.reply, str) else ahead.reply
            else:
                outcome, built = await evaluating, None
                self._spent_s += outcome.wall_s
            self._tried = outcome.tried
            # Asked about the patch only where it matters: short searches carry no mark of it.
            is_long = workflow.info().is_continue_as_new_suggested()
            if built is None and is_long and workflow.patched("continue-search"):
                workflow.continue_as_new(search.model_copy(update={"so_far": self._so_far()}))

    async def _make(self, number: int, search: SearchInput, pending: tuple[str, ...] = ()) -> "_Made":
        """The next generation of the agent of this number, compiled; `pending` is what is judged meanwhile."""
        seconds_left = search.seconds * (number + 1) / len(search.agents) - self._spent_s
        attempts = search.attempts * (number + 1) // len(search.agents)
        attempts_left = attempts - self._tried - len(pending)
        if seconds_left <= 0 or attempts_left <= 0:
            spent = "time is spent" if seconds_left <= 0 else f"{attempts} attempts made"
            return _Made(reply=f"budget: {spent}", wall_s=0.0)
        ask = ProposeInput(
            run_id=search.run_id,
            task_id=search.task_id,
            agent=search.agents[number],
            round_number=self._round_number,
            models=search.models,
            seconds_left=seconds_left,
            attempts_left=attempts_left,
            recalls_past=search.recalls_past,
            pending=pending,
        )
        generation = await perform("propose", ask, queues.AUTHOR, Generation)
        if generation.stop_reason is not None:
            return _Made(reply=generation.stop_reason, wall_s=generation.wall_s)
        build_s = await perform("build_generation", generation, queues.BUILD, float)
        self._round_number += 1
        return _Made(reply=generation, wall_s=generation.wall_s + build_s)

    def _so_far(self) -> SearchSoFar:
        return SearchSoFar(
            tried=self._tried,
            spent_s=self._spent_s,
            stop_reasons=tuple(self._stop_reasons),
            round_number=self._round_number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Made:
    reply: Generation | str
    """A compiled generation, or why there is none."""
    wall_s: float


def _in_words(agents: tuple[str, ...], stop_reasons: list[str]) -> str:
    if len(agents) == 1:
        return stop_reasons[0]
    return "; ".join(f"{agent}: {reason}" for agent, reason in zip(agents, stop_reasons, strict=True))
