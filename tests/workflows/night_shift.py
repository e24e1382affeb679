"""NightShift: workers of one namespace with real nightly activities, and a tuning run that is over in a moment."""

import asyncio
import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack
from pathlib import Path

from temporalio import activity
from temporalio.client import Client
from temporalio.worker import Worker

from candidates.ledger.ledger import Ledger
from candidates.run import RunReport
from compiler_agent.worker import connect
from tests.candidates.serving_build.nights import REPLAY
from tests.workflows.paid_search import open_namespace
from traces.sources.fsspec_source import FsspecSource
from workflows import queues
from workflows.activities.digest import DigestActivities, DigestReceiver
from workflows.activities.failures import FailuresByCause
from workflows.activities.nightly import NightlyActivities
from workflows.nightly_run import NightlyRun
from workflows.payloads import RunInput, SearchPlan, ShipInput, ShippedBuild
from workflows.ship_winner import ShipWinner
from workflows.tuning_run import TuningRun


def report_of(run_id: str, **fields: object) -> RunReport:
    nothing = {
        "run_id": run_id, "replay": REPLAY.report, "coverage": 0.5, "rank_correlation": {}, "hot_ops": (),
        "build": None, "end_to_end": None, "spend_usd": 0.0, "wall_s": 1.0,
    }  # fmt: skip
    return RunReport.model_validate(nothing | fields)


class QuickRun:
    """Activities of a TuningRun under their own names."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.replayed: list[str] = []
        """Runs whose traffic was replayed."""
        self.may_end = threading.Event()
        """Until then a run goes on."""
        self.may_end.set()
        self.fault: Exception | None = None

    @activity.defn
    def measure_device(self, run: RunInput) -> None: ...

    @activity.defn
    def replay_traffic(self, run: RunInput) -> None:
        self.replayed.append(run.run_id)
        self.may_end.wait(30)
        if self.fault is not None:
            raise self.fault

    @activity.defn
    def rank_hot_ops(self, run: RunInput) -> SearchPlan:
        return SearchPlan(searches=(), limit=1)

    @activity.defn
    def check_live(self, ship: ShipInput) -> None: ...

    @activity.defn
    def assemble_build(self, ship: ShipInput) -> ShippedBuild:
        return ShippedBuild(build_id=None)

    @activity.defn
    def gate_build(self, ship: ShipInput) -> None: ...

    @activity.defn
    def conclude_run(self, ship: ShipInput) -> None:
        self._ledger.end_run(report_of(ship.run_id))

    @activity.defn
    def propose_pull_requests(self, ship: ShipInput) -> None: ...


class NightShift:
    def __init__(self, address: str, home: Path, ledger: Ledger, device_id: str) -> None:
        self.namespace = f"nights-{uuid.uuid4().hex}"
        self.nightly = NightlyActivities(ledger, home, FsspecSource)
        self.posted: list[str] = []
        self.digest = DigestActivities(ledger, home, receiver=DigestReceiver(url="https://chat/key", post=self._post))
        self.quick = QuickRun(ledger)
        self.post_fault: Exception | None = None
        self._address, self._device_id = address, device_id
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve()), name="night-shift")

    def __enter__(self) -> "NightShift":
        self._thread.start()
        assert self._ready.wait(30)
        return self

    def __exit__(self, *_: object) -> None:
        self.quick.may_end.set()
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    async def client(self) -> Client:
        return await connect(self._address, self.namespace)

    def _post(self, url: str, markdown: str) -> str:
        if self.post_fault is not None:
            raise self.post_fault
        self.posted.append(markdown)
        return "answered 200"

    async def _serve(self) -> None:
        self._loop, self._stop = asyncio.get_running_loop(), asyncio.Event()
        client = await open_namespace(self._address, self.namespace)
        activities = [
            getattr(each, name)
            for each in (self.nightly, self.digest, self.quick)
            for name, value in vars(type(each)).items()
            if hasattr(value, "__temporal_activity_definition")
        ]
        async with AsyncExitStack() as workers:
            for queue in (queues.CONTROL, queues.SHIP, queues.device_queue(self._device_id)):
                await workers.enter_async_context(
                    Worker(
                        client,
                        task_queue=queue,
                        workflows=[NightlyRun, TuningRun, ShipWinner] if queue == queues.CONTROL else [],
                        activities=activities,
                        interceptors=[FailuresByCause()],
                        activity_executor=ThreadPoolExecutor(2),
                    )
                )
            self._ready.set()
            await self._stop.wait()
