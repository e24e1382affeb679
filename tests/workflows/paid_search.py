"""Searches that pay, around a scripted model server; also a worker of its own: `python -m tests.workflows.paid_search`.

The llm agent, activities, workflows, ledger and metered calls are the real ones. What is slow is replaced: builder,
judge, sanitizers and benchmark decide by the digest of a kernel's source.
"""

import asyncio
import contextlib
import functools
import hashlib
import json
import os
import signal
import sys
import uuid
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from google.protobuf.duration_pb2 import Duration
from temporalio.api.workflowservice.v1 import RegisterNamespaceRequest
from temporalio.client import Client

from candidates.agent import Attempt, Budget, KernelAgent, Proposals, Stop
from candidates.candidate import Candidate, LanguageName
from candidates.compiler_report import CompilerReport
from candidates.languages.cpp import CppLanguage
from candidates.ledger.blobs import BlobStore
from candidates.ledger.ledger import Ledger
from candidates.measurement import Baseline, Decision, Measurement, Stage, WorkloadMeasurement
from candidates.run import TuneRequest
from candidates.spending import ModelBudget
from candidates.task import ErrorBound, InputSpec, KernelTask, TensorSpec, Workload
from candidates.verdict import Accepted, Evidence, EvidenceKind, Reason, Rejected
from compiler_agent.agents.llm.agent import LlmAgent
from compiler_agent.agents.llm.collaborators import Collaborators, Options
from compiler_agent.models.metered import MeteredModel
from compiler_agent.worker import QueueService, connect, serve
from tests.compiler_agent.models.spender import open_spender
from tests.model_server.behaviour import Say
from tests.model_server.server import ModelServer
from workflows import queues
from workflows.activities.search import AuthorActivities, BuildActivities, DeviceSearchActivities
from workflows.activities.tune import TuneActivities
from workflows.payloads import SearchInput

RUN = "run"
SAMPLES = 3
ATTEMPTS = 9


def task_named(name: str) -> KernelTask:
    spec = {"element_type": "float32", "shape": ("rows", 8), "dim_order": (0, 1)}
    return KernelTask(
        op=name,
        site=f"model.layers.*.{name}",
        level="leaf",
        reference="def reference(x):\n    return x + x\n",
        inputs=(InputSpec(name="x", role="activation", **spec),),
        outputs=(TensorSpec(name="out0", **spec),),
        axes=("rows",),
        workloads=(Workload(axes={"rows": 4}, calls_per_hour=10.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id="cpu-0",
    )


def write_reply(body: dict[str, Any], output_tokens: int | None = None) -> Say:
    """The same messages, the same kernel."""
    number = int(hashlib.sha256(json.dumps(body["messages"]).encode()).hexdigest()[:8], 16)
    kernel = f'extern "C" void kernel() {{ const int which = {number}; (void)which; }}'
    text = f"Change: faster\n\n```cpp\n{kernel}\n```\n"
    return Say(text=text, output_tokens=output_tokens or 300 + number % 500)


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a worker works, and the moment at which it dies, if any."""

    address: str
    namespace: str
    device_id: str
    server_url: str
    ledger_url: str
    home: str
    die: str = ""

    def dies_at(self, moment: str) -> None:
        if self.die == moment:
            os.kill(os.getpid(), signal.SIGKILL)


def place_on(address: str, server: ModelServer, home: Path, die: str = "", ledger_url: str = "") -> Place:
    """A namespace, a device and, unless another is given, a ledger of its own."""
    home.mkdir(exist_ok=True)
    name = uuid.uuid4().hex
    return Place(
        address=address,
        namespace=f"paid-{name}",
        device_id=f"cpu-{name}",
        server_url=server.url,
        ledger_url=ledger_url or f"sqlite:///{home / 'ledger.sqlite'}",
        home=str(home),
        die=die,
    )


class DyingAgent:
    def __init__(self, agent: KernelAgent, place: Place) -> None:
        self.name = agent.name
        self._agent, self._place = agent, place

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals | Stop:
        reply = self._agent.propose(task, attempts, budget)
        self._place.dies_at("after_propose")
        return reply


class Bench:
    """Builder, compiler reports, judge, sanitizers and benchmark in one: the same source, the same outcome."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._judged = 0

    def build(self, task: KernelTask, candidate: Candidate) -> bytes | Rejected:
        self._place.dies_at("build")
        return _rejected(Reason.BUILD_FAILED) if _chance(candidate) < 0.2 else candidate.source.encode()

    def report(self, task: KernelTask, candidate: Candidate) -> CompilerReport:
        return CompilerReport(notes=("compiled once more",))

    def judge(self, task: KernelTask, candidate: Candidate, artifact: bytes) -> Accepted | Rejected:
        self._judged += 1
        if self._judged == 2:  # the first is finished work
            self._place.dies_at("evaluate")
        if _chance(candidate) < 0.4:
            return _rejected(Reason.WRONG_VALUES)
        return Accepted(evidence=EvidenceKind.NATIVE, seed=1, calls_checked=1, worst_error_in_bounds=0.5)

    def check(self, task: KernelTask, candidate: Candidate, artifact: bytes) -> None:
        """Sanitizers find nothing."""

    def screen(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, *, incumbent: Measurement | None
    ) -> Measurement:
        return _measurement(candidate, Stage.SCREEN)

    def race(self, task: KernelTask, candidate: Candidate, artifact: bytes, most_s: float, live: None) -> Measurement:
        return _measurement(candidate, Stage.RACE)

    def confirm(
        self, task: KernelTask, candidate: Candidate, artifact: bytes, most_s: float, live: None
    ) -> Measurement:
        self._place.dies_at("settle")
        return _measurement(candidate, Stage.CONFIRM)


def _chance(candidate: Candidate) -> float:
    return int(candidate.id[:4], 16) / 0x10000


def _rejected(reason: Reason) -> Rejected:
    return Rejected(reason=reason, workload=None, evidence=Evidence(message="no"), seed=1)


def _measurement(candidate: Candidate, stage: Stage) -> Measurement:
    speedup = 0.5 + _chance(candidate)
    decision = Decision.WIN if speedup > 1.03 else Decision.LOSE
    workload = WorkloadMeasurement(
        workload="rows=4",
        candidate_us=1.0,
        kernel_only_us=1.0,
        baselines_us={Baseline.EAGER: speedup},
        best_baseline=Baseline.EAGER,
        speedup_over_best=speedup,
        interval=(speedup, speedup),
        pairs=5,
        share_of_floor=0.5,
        parameters_are_cold=False,
        decision=decision,
    )
    return Measurement(
        stage=stage,
        device_id="cpu-0",
        threads=1,
        workloads=(workload,),
        traffic_weighted_speedup=speedup,
        interval=(speedup, speedup),
        decision=decision,
        wall_s=0.0,
    )


def services(place: Place) -> list[QueueService]:
    """What a worker needs for searches, as `wiring` gives it."""
    ledger, blobs = Ledger(place.ledger_url), BlobStore(Path(place.home) / "blobs")

    @functools.cache
    def open_model(name: str) -> MeteredModel:
        return open_spender(place.server_url, place.ledger_url, Path(place.home), die=place.die)

    agent = LlmAgent(
        Collaborators(
            open_model=open_model,
            languages={LanguageName.CPP: CppLanguage()},
            store=blobs.put,
            device_facts=lambda task: "",
            compiler_report=lambda task, candidate: "",
            past_winners=lambda task: (),
            memory=lambda task: (),
        ),
        Options(samples=SAMPLES),
    )
    bench = Bench(place)
    author = AuthorActivities(ledger, blobs, {"llm": DyingAgent(agent, place)}.__getitem__)
    build = BuildActivities(ledger, blobs, bench, bench, parallel=2)
    device = DeviceSearchActivities(
        ledger, blobs, bench, bench, lambda task: bench, lambda task: None, lambda *kernel: None
    )
    tune = TuneActivities(ledger)
    return [
        QueueService(queue=queues.CONTROL, activities=[tune.conclude_tune, tune.conclude_exam], parallel=2),
        QueueService(queue=queues.AUTHOR, activities=[author.propose], parallel=8),
        QueueService(queue=queues.BUILD, activities=[build.build_generation, build.report_best], parallel=2),
        QueueService(
            queue=queues.device_queue(place.device_id),
            activities=[device.evaluate_generation, device.settle_winner],
            parallel=1,
        ),
    ]


def begin_search(place: Place, task: KernelTask, models: ModelBudget) -> SearchInput:
    """Puts the task into the ledger, under the run RUN."""
    ledger = Ledger(place.ledger_url)
    ledger.put_task(task)
    ledger.open_run(TuneRequest(task_id=task.id, op=task.op, agents=("llm",), models=models), RUN)
    return SearchInput(
        run_id=RUN,
        device_id=place.device_id,
        task_id=task.id,
        op=task.op,
        agents=("llm",),
        models=models,
        seconds=1e6,
        attempts=ATTEMPTS,
    )


async def open_namespace(address: str, namespace: str) -> Client:
    """A namespace of its own on the server, so that searches side by side do not take each other's tasks."""
    client = await connect(address, "default")
    week = Duration(seconds=7 * 24 * 3600)
    request = RegisterNamespaceRequest(namespace=namespace, workflow_execution_retention_period=week)
    await client.workflow_service.register_namespace(request)
    return await connect(address, namespace)


@contextlib.asynccontextmanager
async def serving(client: Client, place: Place) -> AsyncIterator[None]:
    worker = asyncio.create_task(serve(client, services(place)))
    try:
        yield
    finally:
        worker.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await worker


async def start_worker(place: Place) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.workflows.paid_search", json.dumps(asdict(place))),
        stdin=asyncio.subprocess.DEVNULL,
    )


def main(place: Place) -> None:
    async def work() -> None:
        await serve(await connect(place.address, place.namespace), services(place))

    asyncio.run(work())


if __name__ == "__main__":
    main(Place(**json.loads(sys.argv[1])))
