"""`compiler-agent builds`: serving builds, which of them is live, and the decisions that made it so."""

import getpass
from typing import Annotated

import typer
from rich.table import Table

from candidates.ledger.ledger import Ledger
from candidates.serving_build.builds import BuildNotFound, BuildStore, NothingToRollBack
from candidates.serving_build.runtime import BuildRefused
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.settings import read_settings

app = typer.Typer(help="Serving builds: list, show, approve, roll back.", no_args_is_help=True)

BuildArgument = Annotated[str, typer.Argument(help="Id of a build, or the start of it.")]


@app.command("list")
def list_builds(json: JsonOption = False) -> ExitCode:
    """Lists the builds, the newest first, and which is live.

    Example: compiler-agent builds list
    """
    store = BuildStore(read_settings().home)
    try:
        builds, live = store.list(), store.current()
    except BuildRefused as error:
        raise UserFault(f"{error}: remove that build's folder, or restore it") from error
    if json:
        print_json(
            [{"id": build.id, "path": str(build.path), "kernels": len(build.manifest.kernels), "live": build.id == live}
             for build in builds]
        )  # fmt: skip
        return ExitCode.DONE
    table = Table("build", "live", "model", "device", "kernels", box=None, header_style="bold")
    for build in builds:
        manifest = build.manifest
        ops = ", ".join(kernel.op for kernel in manifest.kernels)
        table.add_row(build.id[:12], "live" if build.id == live else "", manifest.model, manifest.device.id, ops)
    result_console.print(table)
    return ExitCode.DONE


@app.command()
def show(build: BuildArgument, json: JsonOption = False) -> ExitCode:
    """Shows a build's manifest, after checking every byte of it.

    Example: compiler-agent builds show 3f2a
    """
    try:
        found = BuildStore(read_settings().home).show(build)
    except (BuildNotFound, BuildRefused) as error:
        raise UserFault(str(error)) from error
    if json:
        print_json({"id": found.id, "path": str(found.path)} | found.manifest.model_dump(mode="json"))
        return ExitCode.DONE
    result_console.print(f"{found.path}\nmodel {found.manifest.model}, device {found.manifest.device.id}")
    for kernel in found.manifest.kernels:
        measured = kernel.measurement
        result_console.print(
            f"  {kernel.op}: {measured.traffic_weighted_speedup:.2f}x "
            f"({measured.interval.low:.2f}-{measured.interval.high:.2f}), candidate {kernel.id[:12]}",
            highlight=False,
        )
    return ExitCode.DONE


@app.command()
def approve(build: BuildArgument, json: JsonOption = False) -> ExitCode:
    """Makes a build live; who did it is recorded.

    Example: compiler-agent builds approve 3f2a
    """
    settings = read_settings()
    try:
        approval = BuildStore(settings.home).approve(build, by=getpass.getuser())
    except (BuildNotFound, BuildRefused) as error:
        raise UserFault(str(error)) from error
    Ledger(settings.ledger_url).put_approval(approval.build_id or "", approval)
    if json:
        print_json(approval)
    else:
        result_console.print(f"live: {approval.build_id} (before: {approval.previous or 'none'})", highlight=False)
    return ExitCode.DONE


@app.command()
def rollback(json: JsonOption = False) -> ExitCode:
    """Moves back to the build that was live before.

    Example: compiler-agent builds rollback
    """
    settings = read_settings()
    try:
        approval = BuildStore(settings.home).rollback(by=getpass.getuser())
    except (NothingToRollBack, BuildRefused) as error:
        raise UserFault(str(error)) from error
    Ledger(settings.ledger_url).put_approval(approval.build_id or "", approval)
    if json:
        print_json(approval)
    else:
        result_console.print(f"live: {approval.build_id or 'no build'} (before: {approval.previous})", highlight=False)
    return ExitCode.DONE
