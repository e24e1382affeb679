"""`compiler-agent memory`: what runs learned about changes to kernels."""

from typing import Annotated

import typer

from candidates.ledger.cards import Cards
from candidates.ledger.ledger import Ledger
from candidates.printable import printable
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json
from compiler_agent.settings import read_settings

app = typer.Typer(help="What runs measured of changes to kernels, as agents are shown it.", no_args_is_help=True)


@app.callback()
def _memory() -> None:
    """Keeps `list` a sub-command while it is the only one."""


@app.command("list")
def list_cards(
    most: Annotated[int, typer.Option(min=1, help="How many, the newest first.")] = 20, json: JsonOption = False
) -> ExitCode:
    """Lists the cards, the newest first: a change, and the speed before and after it.

    Example: compiler-agent memory list --most 5
    """
    cards = Cards(Ledger(read_settings().ledger_url)).newest(most)
    if json:
        print_json([{"id": card.id} | card.model_dump(mode="json") for card in cards])
    else:
        typer.echo(printable("\n".join(card.as_text() for card in cards) or "no cards yet"))
    return ExitCode.DONE
