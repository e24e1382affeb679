"""A workflow server, workers of the null device and a run, for as long as a benchmark takes."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from temporalio.client import Client, WorkflowHandle

from benchmarks.null_device.request import null_device
from candidates.ledger.ledger import Ledger
from candidates.run import RunRequest
from compiler_agent.child_processes import start_child, stop_children
from compiler_agent.settings import Settings
from compiler_agent.worker_programs import worker_environment
from workflows import queues
from workflows.payloads import RunInput, ShippedBuild
from workflows.tuning_run import TuningRun

_ENDING_S = 15.0


@dataclass(frozen=True, slots=True, kw_only=True)
class RunningWorker:
    queue: str
    process: subprocess.Popen[bytes]


def worker_command(names: Sequence[str], options: Sequence[str] = ()) -> list[str]:
    return [sys.executable, "-m", "benchmarks.null_device.worker", *(f"--queue={name}" for name in names), *options]


@contextmanager
def null_workers(
    settings: Settings, address: str, names: Sequence[str], options: Sequence[str] = ()
) -> Iterator[tuple[RunningWorker, ...]]:
    """A process for each queue; TERM and fifteen seconds at the end. Each then leaves in `statements-QUEUE` of the logs
    how many statements it had executed."""
    with ExitStack() as stack:
        workers = []
        for name in names:
            counted = f"--count={settings.logs / f'statements-{name}'}"
            command = worker_command([name], [*options, counted])
            process = start_child(command, settings.logs / f"{name}.log", worker_environment(settings, address))
            stack.callback(stop_children, [process], _ENDING_S)
            workers.append(RunningWorker(queue=name, process=process))
        yield tuple(workers)
        for worker in workers:
            worker.process.terminate()


async def start_null_run(
    client: Client, ledger: Ledger, request: RunRequest, run_id: str
) -> WorkflowHandle[TuningRun, ShippedBuild]:
    ledger.put_device(null_device())
    ledger.open_run(request, run_id)
    return await client.start_workflow(
        TuningRun.run,
        RunInput(run_id=run_id, device_id=null_device().id),
        id=run_id,
        task_queue=queues.CONTROL,
    )
