"""The last step of KernelSearch: a compiler report of the best; without one, no harm; searches in flight replay."""

import asyncio
import contextlib
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from temporalio import activity
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, Worker

from candidates.builder import CompilerUnavailable
from candidates.spending import ModelBudget
from tests.workflows.kernel_search_before import KernelSearchBefore
from tests.workflows.paid_search import open_namespace
from workflows import queues
from workflows.activities.failures import FailuresByCause
from workflows.kernel_search import KernelSearch
from workflows.payloads import (
    Generation,
    GenerationOutcome,
    ProposeInput,
    ReportInput,
    SearchInput,
    SearchOutcome,
    SettleInput,
)

SEARCH = SearchInput(
    run_id="run1",
    device_id="cpu-none",
    task_id="t",
    op="Double",
    agents=("search",),
    models=ModelBudget(),
    seconds=10.0,
    attempts=10,
)


class Others:
    """Activities of a search whose agent stops at once; they note their names."""

    def __init__(self, fault=None):
        self.calls, self.fault = [], fault

    @activity.defn
    def propose(self, ask: ProposeInput) -> Generation:
        self.calls.append("propose")
        return Generation(run_id="run1", task_id="t", proposals=(), stop_reason="no_progress: flat", wall_s=0.0)

    @activity.defn
    def settle_winner(self, settle: SettleInput) -> None:
        self.calls.append("settle_winner")

    @activity.defn
    def report_best(self, ask: ReportInput) -> None:
        self.calls.append("report_best")
        if self.fault is not None:
            raise self.fault


class GoingAhead(Others):
    """The agent has three generations of one, and may be asked for each while the one before is judged. A judgement
    ends only when the next generation is built, or has been refused."""

    def __init__(self):
        super().__init__()
        self._moved_on = [threading.Event() for _ in range(4)]

    @activity.defn
    def propose(self, ask: ProposeInput) -> Generation:
        self.calls.append(f"propose beside {','.join(ask.pending) or 'nothing'}, {ask.attempts_left} left")
        if ask.round_number == 3:
            self._moved_on[3].set()
            return Generation(
                run_id="run1", task_id="t", proposals=(), stop_reason="space_exhausted: all 3", wall_s=0.0
            )
        return Generation(run_id="run1", task_id="t", proposals=(f"{ask.round_number}",), may_go_ahead=True, wall_s=0.0)

    @activity.defn
    def build_generation(self, generation: Generation) -> float:
        self.calls.append(f"build {generation.proposals[0]}")
        self._moved_on[int(generation.proposals[0])].set()
        return 0.0

    @activity.defn
    def evaluate_generation(self, generation: Generation) -> GenerationOutcome:
        number = int(generation.proposals[0])
        assert self._moved_on[number + 1].wait(20), "nothing went ahead"
        self.calls.append(f"evaluate {number}")
        return GenerationOutcome(tried=number + 1, wall_s=0.0)


async def search_with(address, workflow, others):
    """The outcome, and the history."""
    client = await open_namespace(address, f"search-{uuid.uuid4().hex}")
    kinds = ("propose", "build_generation", "evaluate_generation", "settle_winner", "report_best")
    all_of_them = [getattr(others, kind) for kind in kinds if hasattr(others, kind)]
    names = (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.device_queue(SEARCH.device_id))
    async with contextlib.AsyncExitStack() as stack:
        for name in names:
            worker = Worker(
                client,
                task_queue=name,
                workflows=[workflow] if name == queues.CONTROL else [],
                activities=all_of_them,
                activity_executor=ThreadPoolExecutor(2),
                interceptors=[FailuresByCause()],
            )
            await stack.enter_async_context(worker)
        handle = await client.start_workflow(
            "KernelSearch", SEARCH, id="search", task_queue=queues.CONTROL, result_type=SearchOutcome
        )
        return await handle.result(), await handle.fetch_history()


@pytest.mark.parametrize("workflow", [KernelSearchBefore, KernelSearch])
def test_searches_in_flight_replay(server_address, workflow):
    async def replay():
        _, history = await search_with(server_address, workflow, others)
        await Replayer(workflows=[KernelSearch], data_converter=pydantic_data_converter).replay_workflow(history)

    others = Others()
    asyncio.run(replay())
    assert ("report_best" in others.calls) == (workflow is KernelSearch)


def test_a_report_that_fails_takes_nothing_from_the_search(server_address):
    others = Others(CompilerUnavailable("no g++"))
    outcome, _ = asyncio.run(search_with(server_address, KernelSearch, others))
    assert outcome == SearchOutcome(tried=0)
    assert others.calls == ["propose", "settle_winner", "report_best"]


def test_the_next_generation_is_built_while_one_is_judged_and_a_stop_said_meanwhile_is_asked_for_again(server_address):
    others = GoingAhead()
    outcome, _ = asyncio.run(search_with(server_address, KernelSearch, others))
    assert outcome == SearchOutcome(tried=3)
    assert others.calls == [
        "propose beside nothing, 10 left",
        "build 0",
        "propose beside 0, 9 left",
        "build 1",
        "evaluate 0",
        "propose beside 1, 8 left",
        "build 2",
        "evaluate 1",
        "propose beside 2, 7 left",
        "evaluate 2",
        "propose beside nothing, 7 left",
        "settle_winner",
        "report_best",
    ]
