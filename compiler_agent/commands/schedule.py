"""`compiler-agent schedule`: runs that come every night by themselves, on the traffic that is new."""

from collections.abc import Awaitable, Callable
from typing import Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.ledger.nights import Nights
from candidates.printable import printable
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, result_console
from compiler_agent.schedule_report import print_schedule, print_schedules
from compiler_agent.schedules import Schedules, with_schedules
from compiler_agent.settings import read_settings

app = typer.Typer(help="Runs that come every night by themselves, on new traffic.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="A schedule's name, or its id.")]
NoteOption = Annotated[str | None, typer.Option(help="Why, for whoever looks at it.")]


@app.command("list")
def list_schedules(json: JsonOption = False) -> ExitCode:
    """Lists the schedules of the server.

    Example: compiler-agent schedule list --json
    """
    found = with_schedules(read_settings(), lambda schedules: schedules.list())
    print_schedules(found, json=json)
    return ExitCode.DONE


@app.command()
def show(name: NameArgument, json: JsonOption = False) -> ExitCode:
    """Shows a schedule with its last nights: what each ran on, or why it did not.

    Example: compiler-agent schedule show chat
    """
    settings = read_settings()
    known = with_schedules(settings, lambda schedules: schedules.find(name))
    ledger = Ledger(settings.ledger_url)
    print_schedule(known, Nights(ledger).latest(known.schedule.id, limit=10), ledger, json=json)
    return ExitCode.DONE


@app.command()
def update(
    name: NameArgument,
    cron: Annotated[str | None, typer.Option(help="As for create.")] = None,
    time_zone: Annotated[str | None, typer.Option(help="As for create.")] = None,
    jitter_minutes: Annotated[float | None, typer.Option(min=0.0, max=1440.0, help="As for create.")] = None,
    catch_up_minutes: Annotated[float | None, typer.Option(min=0.2, max=10080.0, help="As for create.")] = None,
    json: JsonOption = False,
) -> ExitCode:
    """Changes when a schedule comes. For anything else delete it and make it anew: what it has seen stays seen.

    Example: compiler-agent schedule update chat --cron "30 3 * * *"
    """
    asked = {
        "cron": cron,
        "time_zone": time_zone,
        "jitter_s": None if jitter_minutes is None else jitter_minutes * 60.0,
        "catch_up_s": None if catch_up_minutes is None else catch_up_minutes * 60.0,
    }
    changes = {field: value for field, value in asked.items() if value is not None}
    if not changes:
        raise UserFault("nothing to change: give --cron, --time-zone, --jitter-minutes or --catch-up-minutes")
    settings = read_settings()
    changed = with_schedules(settings, lambda schedules: schedules.change_time(name, changes))
    print_schedule(changed, (), Ledger(settings.ledger_url), json=json)
    return ExitCode.DONE


@app.command()
def pause(name: NameArgument, note: NoteOption = None) -> ExitCode:
    """Lets no further night begin; one that goes on goes on.

    Example: compiler-agent schedule pause chat --note "the GPUs are away"
    """
    return _done(name, "paused", lambda schedules: schedules.pause(name, note))


@app.command()
def unpause(name: NameArgument, note: NoteOption = None) -> ExitCode:
    """Lets nights begin again. What was written meanwhile is new to the next one.

    Example: compiler-agent schedule unpause chat
    """
    return _done(name, "goes on", lambda schedules: schedules.unpause(name, note))


@app.command()
def delete(name: NameArgument) -> ExitCode:
    """Deletes a schedule. What its nights found stays; one that goes on goes on.

    Example: compiler-agent schedule delete chat
    """
    return _done(name, "deleted", lambda schedules: schedules.delete(name))


@app.command()
def trigger(name: NameArgument) -> ExitCode:
    """Begins a night now, also of a paused schedule. Exit code 1: one goes on, and nothing was begun.

    Example: compiler-agent schedule trigger chat
    """
    has_begun = with_schedules(read_settings(), lambda schedules: schedules.trigger(name))
    said = (
        "a night begins; `compiler-agent schedule show` tells how it goes"
        if has_begun
        else "a night goes on already, so none was begun"
    )
    result_console.print(f"{printable(name)}: {said}", highlight=False, markup=False)
    return ExitCode.DONE if has_begun else ExitCode.NOT_ACHIEVED


def _done(name: str, said: str, work: Callable[[Schedules], Awaitable[None]]) -> ExitCode:
    with_schedules(read_settings(), work)
    result_console.print(f"{printable(name)}: {said}", highlight=False, markup=False)
    return ExitCode.DONE
