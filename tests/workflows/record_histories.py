"""Records a history of each workflow over the null device: `python -m tests.workflows.record_histories`.

A workflow that has changed must replay what is stored before anything is recorded anew: runs that old workers began go
on with new ones. `test_histories` replays all of them.
"""

import asyncio
import gzip
import tempfile
from pathlib import Path
from typing import Any

from temporalio.client import Client

from benchmarks.null_device.request import AGENT, make_null_request, make_null_tasks, null_device
from benchmarks.null_device.services import QUEUES
from benchmarks.null_device.stack import null_workers, start_null_run
from candidates.exam import ExamRequest, ExamTask
from candidates.ledger.ledger import Ledger
from candidates.measurement import Stage
from candidates.nightly import NightlySchedule
from candidates.run import PromoteRequest, TuneRequest
from candidates.spending import ModelBudget
from candidates.task import KernelTask
from compiler_agent.settings import Settings
from compiler_agent.worker import connect
from tests.workflows.dev_server import dev_server
from traces.sample import SAMPLE_TRACE
from workflows import queues
from workflows.model_exam import ModelExam
from workflows.nightly_run import NightlyRun
from workflows.payloads import ExamInput, SearchInput, ShipInput
from workflows.promote_kernels import PromoteKernels
from workflows.tune_task import TuneTask

HISTORIES = Path(__file__).parent / "histories"
LONG_AFTER_EVENTS = 60
"""For the server: so that a search of a few rounds goes on in a second history."""
_CANDIDATES = 24


def search_of(task: KernelTask, run_id: str, attempts: int = _CANDIDATES) -> SearchInput:
    return SearchInput(
        run_id=run_id,
        device_id=task.device_id,
        task_id=task.id,
        op=task.op,
        agents=(AGENT,),
        models=ModelBudget(),
        seconds=3600.0,
        attempts=attempts,
    )


async def _run_all(client: Client, ledger: Ledger) -> None:
    request = make_null_request(1, hot_ops=2, candidates_per_op=_CANDIDATES)
    await (await start_null_run(client, ledger, request, "run")).result()
    task, *_ = make_null_tasks(request)

    async def execute(workflow: Any, argument: Any) -> None:
        await client.execute_workflow(workflow, argument, id=argument.run_id, task_queue=queues.CONTROL)

    ledger.open_run(TuneRequest(task_id=task.id, op=task.op, agents=(AGENT,)), "tune")
    await execute(TuneTask.run, search_of(task, "tune"))
    exam = ExamRequest(
        endpoint=AGENT,
        model=AGENT,
        is_priced=False,
        tasks=(ExamTask(task_id=task.id, op=task.op),),
        models=ModelBudget(),
        search_s=3600.0,
        attempts=_CANDIDATES,
        last_stage=Stage.CONFIRM,
    )
    ledger.open_run(exam, "exam")
    # Its report counts what models wrote, and nobody writes here.
    await execute(ModelExam.run, ExamInput(run_id="exam", searches=(search_of(task, "exam", attempts=0),)))
    promotion = PromoteRequest(**request.model_dump(), base_run="run", task_ids=(task.id,))
    ledger.open_run(promotion, "promote")
    await execute(PromoteKernels.run, ShipInput(run_id="promote", device_id=null_device().id))
    schedule = NightlySchedule(
        name="null",
        cron="0 2 * * *",
        time_zone="UTC",
        source=str(SAMPLE_TRACE),
        device_id=null_device().id,
        template=make_null_request(2, hot_ops=1, candidates_per_op=_CANDIDATES),
    )
    await client.execute_workflow(NightlyRun.run, schedule, id="night", task_queue=queues.CONTROL)


async def _keep_one_of_each(client: Client) -> None:
    HISTORIES.mkdir(exist_ok=True)
    async for run in client.list_workflows():
        if run.id.startswith(("exam/", "tune/", "promote/", "night/")):
            continue  # those of the run are alike
        history = await client.get_workflow_handle(run.id, run_id=run.run_id).fetch_history()
        part = "-first" if history.events[-1].HasField("workflow_execution_continued_as_new_event_attributes") else ""
        name = f"{run.workflow_type}{part}.json.gz"
        (HISTORIES / name).write_bytes(gzip.compress(history.to_json().encode(), mtime=0))


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        settings = Settings(
            home=home,
            ledger_url=f"sqlite:///{home / 'ledger.sqlite'}",
            temporal_address=None,
            temporal_namespace="default",
        )
        ledger = Ledger(settings.ledger_url)
        with (
            dev_server(home, {"limit.historyCount.suggestContinueAsNew": LONG_AFTER_EVENTS}) as address,
            null_workers(settings, address, QUEUES, ["--generation=4", "--source-bytes=500"]),
        ):

            async def record() -> None:
                client = await connect(address, "default")
                await _run_all(client, ledger)
                await _keep_one_of_each(client)

            asyncio.run(record())


if __name__ == "__main__":
    main()
