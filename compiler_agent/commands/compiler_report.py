"""`compiler-agent task report`: what the compiler made of a kernel for a task."""

from pathlib import Path
from typing import Annotated

import typer

from candidates.candidate import Candidate
from candidates.ledger.ledger import Ledger, LedgerError
from candidates.printable import printable
from compiler_agent.commands.judge import parse_candidate
from compiler_agent.commands.options import JsonOption
from compiler_agent.commands.task import find_task
from compiler_agent.outcome import ExitCode, UserFault, print_json
from compiler_agent.settings import read_settings
from compiler_agent.wiring import LANGUAGES, compiler_reports


def report(
    task: Annotated[str, typer.Argument(help="Id of a task, or the start of it.")],
    candidate: Annotated[
        str, typer.Argument(help="A candidate file, such as kernel.cpp, or the id of a candidate in the ledger.")
    ],
    json: JsonOption = False,
) -> ExitCode:
    """Shows what the compiler made of a kernel: what it vectorised and what not, and the machine code of the loops.

    This is what agents are shown. It stands here, not in `judge`, since it neither runs the kernel nor says whether it
    is right, and needs no device to itself.

    Example: compiler-agent task report 3f2a kernel.cpp
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    found = find_task(ledger, task)
    made = compiler_reports(settings).report(found, _find_candidate(ledger, candidate))
    if json:
        print_json(made)
    else:
        typer.echo(printable(made.as_text()))
    return ExitCode.NOT_ACHIEVED if made.failure else ExitCode.DONE


def _find_candidate(ledger: Ledger, file_or_id: str) -> Candidate:
    path = Path(file_or_id)
    if path.exists() or path.suffix in {language.file_ending for language in LANGUAGES}:
        return parse_candidate(path)
    try:
        return ledger.candidate(file_or_id)
    except LedgerError as error:
        raise UserFault(f"{error}, and there is no file {path}") from error
