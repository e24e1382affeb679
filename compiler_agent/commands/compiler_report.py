"""`compiler-agent task report`: what the compiler made of a kernel for a task."""

from typing import Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.ledger.reports import RecordedReports
from candidates.printable import printable
from compiler_agent.commands.judge import CandidateArgument, find_candidate
from compiler_agent.commands.options import JsonOption
from compiler_agent.commands.task import find_task
from compiler_agent.outcome import ExitCode, print_json
from compiler_agent.settings import read_settings
from compiler_agent.wiring import compiler_reports


def report(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    candidate: CandidateArgument,
    json: JsonOption = False,
) -> ExitCode:
    """Shows what the compiler made of a kernel: what it vectorised and what not, and the machine code of the loops.

    This is what agents are shown. It stands here, not in `judge`, since it neither runs the kernel nor says whether it
    is right, and needs no device to itself. The leaderboard shows the first report of each kernel.

    Example: compiler-agent task report 3f2a kernel.cpp
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    found = find_task(ledger, task)
    reported = find_candidate(ledger, candidate)
    made = compiler_reports(settings).report(found, reported)
    ledger.put_candidate(reported)
    RecordedReports(ledger).put(found.id, reported.id, made)
    if json:
        print_json(made)
    else:
        typer.echo(printable(made.as_text()))
    return ExitCode.NOT_ACHIEVED if made.failure else ExitCode.DONE
