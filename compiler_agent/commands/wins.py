"""`compiler-agent wins`: the leaderboard's ranking on the terminal."""

from typing import Annotated

import typer
from rich.table import Table

from candidates.ledger.find_standings import MOST_STANDINGS, find_standings
from candidates.ledger.ledger import Ledger
from candidates.printable import printable
from candidates.serving_build.builds import BuildStore
from candidates.standing import Standing
from compiler_agent.board_settings import read_board_settings
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings
from leaderboard import wording
from leaderboard.filters import FiltersRefused, read_filters
from leaderboard.serving import live_build, read_serving


def wins(
    state: Annotated[str, typer.Option(help="wins, all, or one state: live, shipped, won, rejected, …")] = "wins",
    sort: Annotated[
        str, typer.Option(help="age (newest first), speedup, floor, share or end_to_end (largest first).")
    ] = "age",
    op: Annotated[str | None, typer.Option(help="Of this op alone.")] = None,
    device: Annotated[str | None, typer.Option(help="By the id of its fingerprint.")] = None,
    model: Annotated[str | None, typer.Option(help="The served model that the op was found in.")] = None,
    agent: Annotated[str | None, typer.Option(help="Who wrote the kernel.")] = None,
    endpoint: Annotated[str | None, typer.Option(help="The language model that wrote it.")] = None,
    language: Annotated[str | None, typer.Option(help="cpp, triton or cuda.")] = None,
    workload_class: Annotated[str | None, typer.Option("--class", help="A workload class, such as chat.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=MOST_STANDINGS, help="How many are listed.")] = 30,
    json: JsonOption = False,
) -> ExitCode:
    """Lists kernels as the leaderboard ranks them. Exit code 1: none is like that.

    Example: compiler-agent wins --sort speedup --class coding
    """
    settings = read_settings()
    asked = {
        "state": state, "sort": sort, "op": op, "device": device, "model": model, "agent": agent,
        "endpoint": endpoint, "language": language, "class": workload_class,
    }  # fmt: skip
    try:
        given = read_filters({name: value for name, value in asked.items() if value is not None})
    except FiltersRefused as error:
        raise UserFault(str(error)) from error
    serving = read_serving(live_build(BuildStore(settings.home)), read_board_settings(settings.home).counters)
    ledger = Ledger(settings.ledger_url)
    found = find_standings(ledger, given.filters, given.sort, serving=serving, limit=limit).standings
    if json:
        print_json([standing.model_dump(mode="json") for standing in found])
    elif not found:
        result_console.print("no kernel is like that", highlight=False)
    else:
        result_console.print(_table(found))
    return ExitCode.DONE if found else ExitCode.NOT_ACHIEVED


def _table(standings: tuple[Standing, ...]) -> Table:
    table = Table(box=None, header_style="bold")
    for column in ("op", "speedup", "interval", "n", "of floor", "of time", "end to end"):
        table.add_column(column, justify="left" if column in ("op", "interval") else "right")
    for column in ("state", "device", "by", "candidate", "age"):
        table.add_column(column)
    for standing in standings:
        table.add_row(
            printable(standing.op),
            wording.speedup(standing.speedup),
            wording.interval(standing.interval),
            wording.count(standing.pairs),
            wording.share(standing.share_of_floor),
            wording.share(standing.share_of_time),
            wording.speedup(standing.end_to_end),
            standing.state.value,
            printable(standing.device_id),
            printable(standing.endpoint or standing.agent),
            standing.candidate_id[:12],
            wording.age(standing.updated_at),
        )
    return table
