"""`compiler-agent task`: the kernel tasks in the ledger."""

from typing import Annotated

import typer
from rich.table import Table

from candidates.candidate import LanguageName
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.task import KernelTask
from compiler_agent.agents.search.agent import naive_kernel
from compiler_agent.agents.search.program import NoProgram
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import LANGUAGES

app = typer.Typer(help="Kernel tasks in the ledger.", no_args_is_help=True)


@app.command("list")
def list_tasks(
    json: JsonOption = False,
) -> ExitCode:
    """Lists the tasks that runs have made.

    Example: compiler-agent task list
    """
    tasks = Ledger(read_settings().ledger_url).tasks()
    if json:
        print_json([{"id": task.id, "op": task.op, "site": task.site, "level": task.level.value} for task in tasks])
        return ExitCode.DONE
    table = Table("task", "op", "level", "site", "workloads", box=None, header_style="bold")
    for task in tasks:
        workloads = " ".join(workload.name for workload in task.public_workloads)
        table.add_row(task.id[:12], task.op, task.level.value, task.site, workloads)
    result_console.print(table)
    return ExitCode.DONE


@app.command()
def show(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    language: Annotated[
        LanguageName | None, typer.Option(help="Print the entry's exact signature and a starting kernel.")
    ] = None,
    json: JsonOption = False,
) -> ExitCode:
    """Shows a task: its reference, inputs, workloads; with --language a file to start from.

    Example: compiler-agent task show 3f2a --language cpp > kernel.cpp
    """
    found = find_task(Ledger(read_settings().ledger_url), task)
    if language is not None:
        if language not in LANGUAGES:
            raise UserFault(f"language {language.value} is not part of this release: use {', '.join(LANGUAGES)}")
        _show_starting_kernel(found, language)
    elif json:
        print_json({"id": found.id} | found.model_dump(mode="json"))
    else:
        result_console.print(f"task {found.id}\nop {found.op} at {found.site} ({found.level.value})", highlight=False)
        for spec in found.inputs:
            kept = "" if spec.stored_as is None else f", may be kept as {spec.stored_as.value}"
            result_console.print(
                f"  in  {spec.name}: {list(spec.shape)} {spec.element_type.value} {spec.role.value}{kept}",
                highlight=False,
                markup=False,
            )
        for output in found.outputs:
            result_console.print(
                f"  out {output.name}: {list(output.shape)} {output.element_type.value}", highlight=False, markup=False
            )
        for workload in found.public_workloads:
            result_console.print(f"  {workload.name}: {workload.calls_per_hour:.0f} calls/h", highlight=False)
        result_console.print(f"covers {found.covered_share:.1%} of the site's time\n", highlight=False)
        result_console.print(found.reference, highlight=False, markup=False)
    return ExitCode.DONE


def find_task(ledger: Ledger, id_prefix: str) -> KernelTask:
    try:
        return ledger.task(id_prefix)
    except LedgerError as error:
        raise UserFault(f"{error}: `compiler-agent task list` shows what there is") from error


def _show_starting_kernel(task: KernelTask, language: LanguageName) -> None:
    brief = LANGUAGES[language].brief(task)
    kernel = naive_kernel(task, language)
    marker = language.comment_marker
    commented = "\n".join(f"{marker} {line}".rstrip() for line in brief.splitlines())
    # Plain text for a file: no wrapping, no markup.
    typer.echo(commented)
    if isinstance(kernel, NoProgram):
        typer.echo(f"{marker} no starting kernel for this graph ({kernel.reason}): write the entry above")
    else:
        typer.echo(kernel.source)
