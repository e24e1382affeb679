"""`compiler-agent promote`: kernels that won outside of a run, into a build."""

from typing import Annotated

import typer

from candidates.ceilings import fingerprint_device
from candidates.ledger.ledger import Ledger
from candidates.ledger.promotions import latest_promotion
from candidates.run import PromoteRequest, Ranking, Stage
from compiler_agent.commands.options import JsonOption, SandboxOption
from compiler_agent.commands.run import ship
from compiler_agent.commands.task import find_task
from compiler_agent.machine import require_machine
from compiler_agent.outcome import ExitCode, UserFault
from compiler_agent.settings import read_settings


def promote(
    task: Annotated[list[str], typer.Argument(help="Ids of tasks, or their starts, for which a kernel was confirmed.")],
    approve: Annotated[
        bool, typer.Option("--approve", help="Let the build go live if it passes every gate; you are recorded.")
    ] = False,
    sandbox: SandboxOption = None,
    json: JsonOption = False,
) -> ExitCode:
    """Ships what `tune` found: the newest confirmed kernel of each task, with what of the live build still holds.

    Example: compiler-agent promote 3f2a 77c1

    The build is gated on the model and the traffic of the newest run that ranked these tasks.
    """
    settings = read_settings(sandbox=sandbox)
    ledger = Ledger(settings.ledger_url)
    task_ids = tuple(find_task(ledger, prefix).id for prefix in task)
    for task_id in task_ids:
        if latest_promotion(ledger, task_id) is None:
            raise UserFault(f"no kernel for task {task_id[:12]} passed its gates: `compiler-agent tune {task_id[:12]}`")
    device = fingerprint_device()
    for task_id in task_ids:
        if ledger.task(task_id).device_id != device.id:
            raise UserFault(f"task {task_id[:12]} is of another device, compiler or PyTorch: a run makes it anew here")
    base = _run_that_ranked(ledger, task_ids)
    require_machine(settings)
    known = ledger.run_request(base).model_dump() | {"approve_automatically": approve}
    request = PromoteRequest.model_validate(known | {"base_run": base, "task_ids": task_ids})
    return ship(settings, ledger, request, json=json)


def _run_that_ranked(ledger: Ledger, task_ids: tuple[str, ...]) -> str:
    """The newest. Raises UserFault."""
    for run in ledger.runs():
        ranking = ledger.stage(run.run_id, Stage.RANKING, Ranking)
        if isinstance(run.request, PromoteRequest):
            continue  # its ranking is its base's
        if ranking is not None and set(task_ids) <= set(ranking.sites):
            return run.run_id
    raise UserFault("no run ranked these tasks together: a build needs a model and traffic to be gated on")
