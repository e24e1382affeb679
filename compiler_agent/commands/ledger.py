"""`compiler-agent ledger`: its schema, whether it is whole, and its move from one database to another."""

from pathlib import Path
from typing import Annotated

import typer
from sqlalchemy import Engine, func, select
from sqlalchemy.orm import Session

from candidates.ledger import standings
from candidates.ledger.check import check_blobs, check_ledger
from candidates.ledger.copy_ledger import copy_ledger
from candidates.ledger.database import connect_database, open_database
from candidates.ledger.ledger import Ledger
from candidates.ledger.schema import HEAD, alone, migrate
from candidates.ledger.standing_rows import StandingRow
from compiler_agent.blob_store import open_blobs
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings

app = typer.Typer(
    help="The ledger: bring its schema up, check it, mend its standings, take over another one.", no_args_is_help=True
)


@app.command("migrate")
def migrate_schema(json: JsonOption = False) -> ExitCode:
    """Brings the ledger's schema to this version's; all or nothing, and once however often it is called.

    On PostgreSQL nothing else does it: stop workers of the older version first. A SQLite file is also brought up by
    whoever opens it; a copy of it as it was stays beside it.

    Example: compiler-agent ledger migrate
    """
    made = migrate(connect_database(read_settings().ledger_url), standings.rebuild)
    if json:
        print_json({"before": made.before, "after": made.after, "copy": None if made.copy is None else str(made.copy)})
        return ExitCode.DONE
    if made.before == made.after:
        said = f"revision {made.after}: nothing to do"
    else:
        said = f"from revision {made.before or 'none'} to {made.after}"
    result_console.print(said if made.copy is None else f"{said}; as it was: {made.copy}", highlight=False)
    return ExitCode.DONE


@app.command()
def check(
    blobs: Annotated[bool, typer.Option("--blobs", help="Also read every blob that facts name.")] = False,
    json: JsonOption = False,
) -> ExitCode:
    """Checks that every row names rows that are there, and that standings are what the facts give.

    It reads the whole ledger, and needs as much room under the home's cache. Exit code 1: something is not as it should
    be.

    Example: compiler-agent ledger check --blobs
    """
    settings = read_settings()
    ledger = Ledger(settings.ledger_url)
    state = check_ledger(ledger.engine, settings.cache)
    found = check_blobs(ledger.engine, open_blobs(settings)) if blobs else None
    is_whole = state.is_whole and (found is None or not found.faults)
    if json:
        document = {"revision": HEAD, "is_whole": is_whole} | state.model_dump(mode="json")
        print_json(document | {"blobs": None if found is None else found.model_dump(mode="json")})
    else:
        lines = [f"revision {HEAD}, {sum(state.rows.values())} rows"]
        lines += [f"! {orphans}" for orphans in state.orphans]
        lines += [f"! {table} is not what the facts give: compiler-agent ledger rebuild" for table in state.stale]
        if found is not None:
            lines += [
                f"{found.named} blobs named, {found.pruned} pruned, {found.faults} faults",
                *(f"! {one}" for one in found.shown),
            ]
        result_console.print("\n".join([*lines, *(["whole"] if is_whole else [])]), highlight=False, markup=False)
    return ExitCode.DONE if is_whole else ExitCode.NOT_ACHIEVED


@app.command()
def rebuild(json: JsonOption = False) -> ExitCode:
    """Makes standings and all else that is made from facts again, where `check` says that they are not what facts give.

    Whoever adds facts waits meanwhile.

    Example: compiler-agent ledger rebuild
    """
    with alone(Ledger(read_settings().ledger_url).engine) as connection, Session(connection) as session:
        standings.rebuild(session)
        lines = session.scalars(select(func.count()).select_from(StandingRow)).one()
        session.flush()
    if json:
        print_json({"standings": lines})
    else:
        result_console.print(f"{lines} standings made again", highlight=False)
    return ExitCode.DONE


@app.command("import")
def import_ledger(
    source: Annotated[str, typer.Argument(help="A SQLite file, or the URL of a ledger.")], json: JsonOption = False
) -> ExitCode:
    """Takes every row of another ledger over into this one, which must be empty; all or nothing.

    Ids, numbers and times stay. Blobs are not copied: they lie in the home's
    folder, or where COMPILER_AGENT_BLOBS says.

    Example: COMPILER_AGENT_LEDGER=postgresql+psycopg://user@host/kernels compiler-agent ledger import var/ledger.sqlite
    """
    rows = copy_ledger(_open_source(source), Ledger(read_settings().ledger_url).engine)
    if json:
        print_json({"rows": dict(rows)})
    else:
        result_console.print(f"{sum(rows.values())} rows taken over", highlight=False)
    return ExitCode.DONE


def _open_source(source: str) -> Engine:
    """Raises UserFault for a file that is not there: to open it would make an empty one."""
    url = source if "://" in source else f"sqlite:///{Path(source).absolute()}"
    path = url.partition(":///")[2].partition("?")[0]
    if url.startswith("sqlite") and not Path(path).is_file():
        raise UserFault(f"no ledger to take over: {path} is not there")
    return open_database(url, standings.rebuild)
