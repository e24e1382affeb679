"""Order, budgets and retries of a run, on a real server, with activities that only record what they were asked."""

import asyncio
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from temporalio import activity
from temporalio.client import WorkflowFailureError
from temporalio.exceptions import ApplicationError
from temporalio.worker import Worker

from candidates.spending import ModelBudget
from compiler_agent.worker import connect
from workflows import queues
from workflows.activities.failures import FailuresByCause
from workflows.kernel_search import KernelSearch
from workflows.payloads import (
    Generation,
    GenerationOutcome,
    ProposeInput,
    ReportInput,
    RunInput,
    SearchInput,
    SearchPlan,
    SettleInput,
    ShipInput,
    ShippedBuild,
)
from workflows.retries import BUG_TRIES
from workflows.ship_winner import ShipWinner
from workflows.tuning_run import TuningRun


class RecordedActivities:
    """Every activity notes its name; searches of `tasks` get two generations each unless told otherwise."""

    def __init__(self, device_id, tasks=("t1", "t2"), limit=2, generation_s=1.0, budget_s=100.0):
        self.calls = []
        self.asked = []
        self.agents, self.attempts, self.rounds_of_agent = ("search",), 100, 2
        self.device_id, self.tasks, self.limit = device_id, tasks, limit
        self.generation_s, self.budget_s = generation_s, budget_s
        self.failures_left = {}
        self.tried = {}

    def _note(self, name, *details):
        self.calls.append((name, *details))
        if self.failures_left.get(name, 0) > 0:
            self.failures_left[name] -= 1
            raise RuntimeError(f"{name} failed")

    @activity.defn
    def measure_device(self, run: RunInput) -> None:
        self._note("measure_device")

    @activity.defn
    def replay_traffic(self, run: RunInput) -> None:
        self._note("replay_traffic")

    @activity.defn
    def rank_hot_ops(self, run: RunInput) -> SearchPlan:
        self._note("rank_hot_ops")
        return SearchPlan(
            searches=tuple(
                SearchInput(
                    run_id=run.run_id,
                    device_id=run.device_id,
                    task_id=task,
                    op=task,
                    agents=self.agents,
                    models=ModelBudget(),
                    seconds=self.budget_s,
                    attempts=self.attempts,
                )
                for task in self.tasks
            ),
            limit=self.limit,
        )

    @activity.defn
    def propose(self, ask: ProposeInput) -> Generation:
        self._note("propose", ask.task_id)
        self.asked.append(ask)
        is_over = ask.round_number == self.rounds_of_agent or ask.task_id.startswith("none")
        return Generation(
            run_id=ask.run_id,
            task_id=ask.task_id,
            proposals=() if is_over else ("blob",),
            stop_reason="no_progress: flat" if is_over else None,
            wall_s=0.0,
        )

    @activity.defn
    def build_generation(self, generation: Generation) -> float:
        self._note("build_generation", generation.task_id)
        return 0.0

    @activity.defn
    def evaluate_generation(self, generation: Generation) -> GenerationOutcome:
        self._note("evaluate_generation", generation.task_id)
        self.tried[generation.task_id] = self.tried.get(generation.task_id, 0) + 1
        return GenerationOutcome(tried=self.tried[generation.task_id], wall_s=self.generation_s)

    @activity.defn
    def settle_winner(self, settle: SettleInput) -> None:
        self._note("settle_winner", settle.task_id, settle.stop_reason)

    @activity.defn
    def report_best(self, ask: ReportInput) -> None:
        self._note("report_best", ask.task_id)

    @activity.defn
    def check_live(self, ship: ShipInput) -> None:
        self._note("check_live")

    @activity.defn
    def assemble_build(self, ship: ShipInput) -> ShippedBuild:
        self._note("assemble_build")
        return ShippedBuild(build_id="b")

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None:
        self._note("gate_build")

    @activity.defn
    def conclude_run(self, ship: ShipInput) -> None:
        self._note("conclude_run")

    @activity.defn
    def propose_pull_requests(self, ship: ShipInput) -> None:
        self._note("propose_pull_requests")

    def workers(self, client):
        everything = [
            getattr(self, name)
            for name, value in vars(type(self)).items()
            if hasattr(value, "__temporal_activity_definition")
        ]
        names = (queues.CONTROL, queues.AUTHOR, queues.BUILD, queues.SHIP, queues.device_queue(self.device_id))
        return [
            Worker(
                client,
                task_queue=name,
                workflows=[TuningRun, KernelSearch, ShipWinner] if name == queues.CONTROL else [],
                activities=everything,
                activity_executor=ThreadPoolExecutor(2),
                interceptors=[FailuresByCause()],
            )
            for name in names
        ]


async def _run(address, recorded):
    client = await connect(address, "default")
    workers = recorded.workers(client)
    serving = [asyncio.ensure_future(worker.run()) for worker in workers]
    try:
        return await client.execute_workflow(
            TuningRun.run,
            RunInput(run_id="run", device_id=recorded.device_id),
            id=f"run-{uuid.uuid4()}",
            task_queue=queues.CONTROL,
        )
    finally:
        for worker in workers:
            await worker.shutdown()
        await asyncio.gather(*serving, return_exceptions=True)


@pytest.fixture
def recorded():
    return RecordedActivities(device_id=f"cpu-{uuid.uuid4()}")


def test_stages_come_in_order_and_searches_one_after_the_other(server_address, recorded):
    result = asyncio.run(_run(server_address, recorded))
    assert result == ShippedBuild(build_id="b")
    generation = ["propose", "build_generation", "evaluate_generation"]
    search = [*generation, *generation, "propose", "settle_winner", "report_best"]
    assert [call[0] for call in recorded.calls] == [
        "measure_device", "replay_traffic", "rank_hot_ops", *search, *search,
        "check_live", "assemble_build", "gate_build", "conclude_run", "propose_pull_requests",
    ]  # fmt: skip
    assert ("settle_winner", "t1", "no_progress: flat") in recorded.calls


def test_an_op_without_a_program_takes_no_place_among_the_searched(server_address, recorded):
    recorded.tasks, recorded.limit = ("none1", "t1", "t2"), 1
    asyncio.run(_run(server_address, recorded))
    assert [call[1] for call in recorded.calls if call[0] == "settle_winner"] == ["none1", "t1"]


def test_the_time_budget_ends_a_search(server_address, recorded):
    recorded.budget_s, recorded.tasks = 1.0, ("t1",)
    asyncio.run(_run(server_address, recorded))
    assert [call for call in recorded.calls if call[0] == "settle_winner"] == [
        ("settle_winner", "t1", "budget: time is spent")
    ]
    assert sum(call[0] == "propose" for call in recorded.calls) == 1


def test_agents_take_turns_and_what_one_leaves_the_next_may_use(server_address, recorded):
    """Ten seconds and attempts for two: the first stops by itself after two rounds of a second, the second at ten."""
    recorded.agents, recorded.budget_s, recorded.attempts, recorded.tasks = ("a", "b"), 10.0, 11, ("t1",)
    recorded.rounds_of_agent = 2
    asyncio.run(_run(server_address, recorded))
    seen = [(ask.agent, ask.round_number, ask.seconds_left, ask.attempts_left) for ask in recorded.asked]
    assert seen == [
        ("a", 0, 5.0, 5), ("a", 1, 4.0, 4), ("a", 2, 3.0, 3),
        ("b", 0, 8.0, 9), ("b", 1, 7.0, 8), ("b", 2, 6.0, 7),
    ]  # fmt: skip
    assert recorded.calls.count(("settle_winner", "t1", "a: no_progress: flat; b: no_progress: flat")) == 1


@pytest.mark.parametrize(
    ("seconds", "attempts", "words"),
    [
        (6.0, 100, "a: budget: time is spent; b: budget: time is spent"),
        (100.0, 7, "a: budget: 3 attempts made; b: budget: 7 attempts made"),
    ],
)
def test_each_agent_stops_at_its_share(server_address, recorded, seconds, attempts, words):
    recorded.agents, recorded.budget_s, recorded.attempts, recorded.tasks = ("a", "b"), seconds, attempts, ("t1",)
    recorded.rounds_of_agent = 100
    asyncio.run(_run(server_address, recorded))
    assert ("settle_winner", "t1", words) in recorded.calls
    rounds = [ask.agent for ask in recorded.asked]
    assert rounds == ["a"] * 3 + ["b"] * (3 if attempts == 100 else 4)


def test_a_failed_activity_is_tried_again(server_address, recorded):
    recorded.failures_left["evaluate_generation"] = 1
    asyncio.run(_run(server_address, recorded))
    assert sum(call == ("evaluate_generation", "t1") for call in recorded.calls) == 3


def test_machinery_that_keeps_failing_is_not_tried_for_ever(server_address, recorded):
    recorded.failures_left["evaluate_generation"] = 1000
    with pytest.raises(WorkflowFailureError):
        asyncio.run(_run(server_address, recorded))
    assert sum(call == ("evaluate_generation", "t1") for call in recorded.calls) == BUG_TRIES


@pytest.mark.parametrize("kind", ["TraceError", "UserFault", "ModelRejectedRequest"])
def test_a_fault_of_the_user_is_not_tried_again(server_address, recorded, kind):
    fault = type(kind, (Exception,), {})

    def refuse(*_):
        recorded.calls.append(("replay_traffic",))
        raise fault("the file changed")

    recorded._note = lambda name, *details: refuse() if name == "replay_traffic" else None
    with pytest.raises(WorkflowFailureError) as failure:
        asyncio.run(_run(server_address, recorded))
    cause = failure.value.cause.cause
    assert isinstance(cause, ApplicationError)
    assert cause.type == kind
    assert recorded.calls == [("replay_traffic",)]
