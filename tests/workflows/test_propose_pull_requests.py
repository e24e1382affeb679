"""The last step of ShipWinner: killed anywhere, one pull request; refused, no harm; runs in flight replay."""

import asyncio
import contextlib
import os
import signal
import sys
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from temporalio import activity
from temporalio.contrib.pydantic import pydantic_data_converter
from temporalio.worker import Replayer, Worker

from candidates.forge import ForgeRefused
from tests.candidates.pull_requests.past_runs import Kernel, PastRuns
from tests.forge_server.faults import Fault
from tests.forge_server.server import NAME, TOKEN, github_server
from tests.workflows.paid_search import open_namespace
from tests.workflows.ship_winner_before import ShipWinnerBefore
from workflows import queues
from workflows.activities.failures import FailuresByCause
from workflows.payloads import ShipInput, ShippedBuild
from workflows.ship_winner import ShipWinner


class Others:
    """Every activity of shipping, doing nothing but note its name."""

    def __init__(self, refusal=None):
        self.calls, self.refusal = [], refusal

    @activity.defn
    def check_live(self, ship: ShipInput) -> None:
        self.calls.append("check_live")

    @activity.defn
    def assemble_build(self, ship: ShipInput) -> ShippedBuild:
        self.calls.append("assemble_build")
        return ShippedBuild(build_id="b")

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None:
        self.calls.append("gate_build")

    @activity.defn
    def conclude_run(self, ship: ShipInput) -> None:
        self.calls.append("conclude_run")

    @activity.defn
    def propose_pull_requests(self, ship: ShipInput) -> None:
        self.calls.append("propose_pull_requests")
        if self.refusal is not None:
            raise self.refusal


@contextlib.asynccontextmanager
async def serving(client, queue, workflows, activities):
    worker = Worker(
        client,
        task_queue=queue,
        workflows=workflows,
        activities=activities,
        activity_executor=ThreadPoolExecutor(2),
        interceptors=[FailuresByCause()],
    )
    async with worker:
        yield


async def ship_with(address, workflow, others, device_id="cpu-none"):
    """The result, and the history."""
    client = await open_namespace(address, f"ship-{uuid.uuid4().hex}")
    all_of_them = [
        others.check_live,
        others.assemble_build,
        others.gate_build,
        others.conclude_run,
        others.propose_pull_requests,
    ]
    async with (
        serving(client, queues.CONTROL, [workflow], []),
        serving(client, queues.SHIP, [], all_of_them),
        serving(client, queues.device_queue(device_id), [], all_of_them),
    ):
        handle = await client.start_workflow(
            "ShipWinner",
            ShipInput(run_id="run1", device_id=device_id),
            id="ship",
            task_queue=queues.CONTROL,
            result_type=ShippedBuild,
        )
        return await handle.result(), await handle.fetch_history()


@pytest.mark.parametrize("workflow", [ShipWinnerBefore, ShipWinner])
def test_runs_in_flight_replay(server_address, workflow):
    async def replay():
        _, history = await ship_with(server_address, workflow, others)
        await Replayer(workflows=[ShipWinner], data_converter=pydantic_data_converter).replay_workflow(history)

    others = Others()
    asyncio.run(replay())
    assert ("propose_pull_requests" in others.calls) == (workflow is ShipWinner)


def test_a_forge_that_refuses_takes_nothing_from_the_run(server_address):
    others = Others(refusal=ForgeRefused("the token is not allowed to"))
    result, _ = asyncio.run(ship_with(server_address, ShipWinner, others))
    assert result == ShippedBuild(build_id="b")
    assert others.calls == ["check_live", "assemble_build", "gate_build", "conclude_run", "propose_pull_requests"]


async def start_ship_worker(client, address, home, server):
    environment = {
        **os.environ,
        "COMPILER_AGENT_HOME": str(home),
        "COMPILER_AGENT_TEMPORAL": address,
        "COMPILER_AGENT_TEMPORAL_NAMESPACE": client.namespace,
        "COMPILER_AGENT_ALLOW_ROOT": "1",
        "COMPILER_AGENT_FORGE": "github",
        "COMPILER_AGENT_FORGE_URL": server.api_url,
        "COMPILER_AGENT_REPOSITORY": NAME,
        "GITHUB_TOKEN": TOKEN,
    }
    command = [sys.executable, "-m", "compiler_agent", "worker", "--queue", "ship"]
    return await asyncio.create_subprocess_exec(*command, env=environment, stdin=asyncio.subprocess.DEVNULL)


async def kill_while(address, runs, server, fault, device_id):
    """Ships with a real worker that is killed when `fault` is met, and then with another."""
    client = await open_namespace(address, f"ship-{uuid.uuid4().hex}")
    server.faults.append(fault)
    workers = []
    try:
        async with (
            serving(client, queues.CONTROL, [ShipWinner], []),
            serving(client, queues.device_queue(device_id), [], [Others().check_live, Others().gate_build]),
        ):
            workers.append(await start_ship_worker(client, address, runs.home, server))
            handle = await client.start_workflow(
                ShipWinner.run,
                ShipInput(run_id="run1", device_id=device_id),
                id="ship",
                task_queue=queues.CONTROL,
            )
            assert await asyncio.to_thread(fault.arrived.wait, 120)
            workers[0].send_signal(signal.SIGKILL)
            await workers[0].wait()
            seen = len(server.pulls.all), server.pushes()
            workers.append(await start_ship_worker(client, address, runs.home, server))
            await handle.result()
            return seen
    finally:
        for worker in workers:
            with contextlib.suppress(ProcessLookupError):
                worker.kill()
            await worker.wait()


MOMENTS = {
    "between_push_and_opening": (Fault(method="POST", path="/pulls$", holds=True), (0, 1), 1),
    "opened_and_not_told": (Fault(method="POST", path="/pulls$", holds=True, is_done=True), (1, 1), 1),
    "pushed_and_not_told": (Fault(method="POST", path="/git-receive-pack$", holds=True, is_done=True), (0, 1), 1),
    "before_the_push": (Fault(method="POST", path="/git-receive-pack$", holds=True), (0, 1), 2),
}


@pytest.fixture(scope="module")
def killed(server_address, tmp_path_factory):
    """By moment: the runs, the forge, and what was there at the death. Side by side: it takes the server 20 s to notice
    a death."""
    folder = tmp_path_factory.mktemp("killed")
    with contextlib.ExitStack() as stack:
        places = {}
        for moment in MOMENTS:
            runs = PastRuns(folder / moment / "home")
            runs.add("run1", Kernel())
            places[moment] = runs, stack.enter_context(github_server(folder / moment / "github"))

        async def kill_all():
            return await asyncio.gather(*(
                kill_while(server_address, runs, server, MOMENTS[moment][0], f"cpu-{uuid.uuid4().hex[:8]}")
                for moment, (runs, server) in places.items()
            ))  # fmt: skip

        seen = asyncio.run(kill_all())
        yield {moment: (*place, at_death) for (moment, place), at_death in zip(places.items(), seen, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("moment", MOMENTS)
def test_a_worker_that_is_killed_leaves_one_pull_request(killed, moment):
    (_, expected, pushes), (runs, server, seen) = MOMENTS[moment], killed[moment]
    assert seen == expected
    (pull,) = server.pulls.all
    assert pull.labels == ["compiler-agent"]
    assert pull.state == "open"
    assert server.pushes() == pushes
    progress = [each.progress.message for each in runs.ledger.progress_after("run1", 0)]
    assert any(message.startswith("pull request ") for message in progress)
