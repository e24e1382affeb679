"""`compiler-agent pr`: pull requests with kernels that won, opened and followed by hand."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from candidates.ledger.ledger import Ledger, LedgerError
from candidates.printable import printable
from candidates.pull_requests.desk import PullRequestDesk, list_pull_requests
from candidates.pull_requests.follow import ApprovalKind
from candidates.pull_requests.publish import Outcome, OutcomeKind
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import REPOSITORY_NAMES, open_desk

app = typer.Typer(help="Pull requests with kernels that won: open, follow, list.", no_args_is_help=True)

_NO_REPOSITORY = (
    "no repository is configured: set COMPILER_AGENT_REPOSITORY to the folder of a git repository, or to owner/name "
    "with COMPILER_AGENT_FORGE=github"
)
_GOOD = {OutcomeKind.OPENED, OutcomeKind.UPDATED, OutcomeKind.UNCHANGED, OutcomeKind.PLANNED}
_TO_MEND = {OutcomeKind.REFUSED, OutcomeKind.CONFLICT}


@app.command("open")
def open_requests(
    run: Annotated[str | None, typer.Argument(help="Id of a run, or the start of it; else the latest build.")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print text and difference; change nothing.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Opens or updates the pull requests of a run whose build passed its gates. May be repeated at any time.

    Exit code 1: none is open and as it should be, or one was refused or is in conflict.

    Example: COMPILER_AGENT_REPOSITORY=../kernels compiler-agent pr open --dry-run
    """
    try:
        outcomes = _desk().open(run, is_dry_run=dry_run)
    except LedgerError as error:
        raise UserFault(str(error)) from error
    if json:
        print_json([outcome.model_dump(mode="json") for outcome in outcomes])
    elif not outcomes:
        result_console.print("nothing to propose: the run's build did not pass its gates, or has no kernels")
    for outcome in () if json else outcomes:
        _print(outcome)
    kinds = {outcome.kind for outcome in outcomes}
    return ExitCode.DONE if kinds & _GOOD and not kinds & _TO_MEND else ExitCode.NOT_ACHIEVED


@app.command()
def sync(json: JsonOption = False) -> ExitCode:
    """Reads what became of all pull requests, finishes what was interrupted or waited for its turn, and approves a
    build all of whose kernels are merged.

    Exit code 1: a pull request was refused or is in conflict, or the build of what is merged cannot go live.

    Example: compiler-agent pr sync
    """
    report = _desk().sync()
    if json:
        print_json(report)
    else:
        for change in report.changes:
            result_console.print(f"{change.state.value}: {escape(printable(change.op))} {change.url}", highlight=False)
            if change.reason:
                result_console.print(f"  {printable(change.reason)}", highlight=False, markup=False)
        for outcome in report.outcomes:
            _print(outcome)
        if (approval := report.approval) is not None:
            what = f"build {approval.build_id[:12]} {approval.kind.value}: {printable(approval.reason)}"
            result_console.print(what, highlight=False, markup=False)
        if not (report.changes or report.outcomes or report.approval):
            result_console.print("nothing changed")
    is_impossible = report.approval is not None and report.approval.kind is ApprovalKind.IMPOSSIBLE
    needs_mending = is_impossible or any(outcome.kind in _TO_MEND for outcome in report.outcomes)
    return ExitCode.NOT_ACHIEVED if needs_mending else ExitCode.DONE


@app.command("list")
def list_requests(json: JsonOption = False) -> ExitCode:
    """Lists the pull requests that the ledger knows, as `pr sync` last saw them.

    Example: compiler-agent pr list --json
    """
    settings = read_settings()
    if settings.forge is None:
        raise UserFault(_NO_REPOSITORY)
    found = list_pull_requests(Ledger(settings.ledger_url), REPOSITORY_NAMES[settings.forge.forge](settings.forge))
    if json:
        print_json([each.last.model_dump(mode="json") | {"number": each.number, "url": each.url} for each in found])
        return ExitCode.DONE
    table = Table("op", "state", "speedup", "interval", "build", "url", box=None, header_style="bold")
    for last, _, url in found:
        table.add_row(
            escape(printable(last.op)),
            last.event.value,
            f"{last.speedup:.2f}x",
            f"{last.interval.low:.2f}-{last.interval.high:.2f}",
            last.build_id[:12],
            url or "",
        )
    result_console.print(table)
    return ExitCode.DONE


def _desk() -> PullRequestDesk:
    settings = read_settings()
    desk = open_desk(settings, Ledger(settings.ledger_url))
    if desk is None:
        raise UserFault(_NO_REPOSITORY)
    return desk


def _print(outcome: Outcome) -> None:
    line = f"{outcome.kind.value}: {printable(outcome.op)}: {outcome.reason}" + (
        f" {outcome.url}" if outcome.url else ""
    )
    result_console.print(line, highlight=False, markup=False, soft_wrap=True)
    for part in (outcome.title, outcome.body, outcome.difference):
        if part is not None:
            result_console.print(printable(part), highlight=False, markup=False, soft_wrap=True)
