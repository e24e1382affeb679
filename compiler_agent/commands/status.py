"""`compiler-agent status`: how the service is: server, queues, workers, runs, ledger, disk, live build."""

from collections.abc import Sequence

from rich.markup import escape
from rich.table import Table

from candidates.printable import printable
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.service_status import ServiceStatus, read_service_status
from compiler_agent.settings import read_settings
from compiler_agent.temporal_status import Retry, read_retries


def status(json: JsonOption = False) -> ExitCode:
    """Says how the service is. Exit 0: healthy; 1: something that it needs is missing, and is named.

    Example: compiler-agent status --json
    """
    found = read_service_status(read_settings())
    retries = () if found.temporal is None else read_retries(found.temporal.address, found.temporal.namespace)
    if json:
        print_json(
            {"healthy": not found.problems}
            | found.model_dump(mode="json")
            | {"retries": [retry.model_dump(mode="json") for retry in retries]}
        )
    else:
        _print(found, retries)
    return ExitCode.NOT_ACHIEVED if found.problems else ExitCode.DONE


def _print(found: ServiceStatus, retries: Sequence[Retry]) -> None:
    table = Table(box=None, show_header=False, pad_edge=False)

    def row(name: str, words: str) -> None:
        table.add_row(name, escape(printable(words)))

    row("home", f"{found.home}, {found.free_bytes / 2**30:.1f} GiB free")
    if found.up is not None:
        row("up", f"pid {found.up.pid} since {found.up.started_at:%Y-%m-%d %H:%M:%SZ}, page at {found.up.leaderboard}")
        for program in found.up.programs:
            restarts = f", restarts {program.restarts}" if program.restarts else ""
            row(f"  {program.name}", f"{program.state} (pid {program.pid}){restarts}")
    if found.temporal is not None:
        row("temporal", f"{found.temporal.address}, namespace {found.temporal.namespace}")
        for queue in found.temporal.queues:
            row(f"  {queue.queue}", f"workers {queue.workers}, waiting tasks {queue.backlog}")
    if found.ledger is not None:
        row("ledger", "can be opened" if found.ledger.revision is None else f"revision {found.ledger.revision}")
        for run in found.ledger.runs:
            row(f"  {run.run_id}", f"{run.state} {run.message}")
    row("live build", found.live_build or "none")
    result_console.print(table)
    for retry in retries:
        told = f"{retry.activity} of {retry.workflow_id}: try {retry.tries}, the last ended with {retry.failure}"
        result_console.print(f"tried again: {printable(told)}", highlight=False, markup=False, soft_wrap=True)
    for problem in found.problems:
        result_console.print(f"[bold red]missing:[/] {escape(problem)}", highlight=False)
    if not found.problems:
        result_console.print("[green]healthy[/]")
