"""`compiler-agent builds export`: a build's kernels as another project loads them."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from candidates.ledger.ledger import Ledger
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.export_folder import write_export
from compiler_agent.commands.builds import BuildArgument, require_no_flaw
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.settings import read_settings
from compiler_agent.wiring import TARGETS

TargetName = StrEnum("TargetName", {name: name for name in TARGETS})  # type: ignore[misc]


def export(
    build: BuildArgument,
    target: Annotated[TargetName, typer.Option(help="Who is to load it.")],
    to: Annotated[Path, typer.Option(help="A new or empty folder, or one of an earlier export.")],
    json: JsonOption = False,
) -> ExitCode:
    """Writes a build's kernels as another project loads them: a folder to load or to install from.

    Models of transformers need none: they load the build's own folder.

    Example: compiler-agent builds export 3f2a --target hf-kernels --to kernels-3f2a
    """
    settings = read_settings()
    found = BuildStore(settings.home).show(build)
    require_no_flaw(Ledger(settings.ledger_url), found)
    export = TARGETS[target.value](settings).export(found)
    if export.files:
        write_export(export, target.value, found.id, to)
    folder = str(to.absolute())
    next_step = export.next_step.replace("FOLDER", folder) if export.files else None
    if json:
        print_json(
            {"build": found.id, "target": target.value, "folder": folder if export.files else None,
             "kernels": list(export.carried), "next_step": next_step,
             "left_out": [{"kernel": e.kernel_id, "op": e.op, "reason": e.reason} for e in export.left_out]}
        )  # fmt: skip
        return ExitCode.DONE if export.files else ExitCode.NOT_ACHIEVED
    for each in export.left_out:
        _say(f"left out {each.op} {each.kernel_id[:12]}: {each.reason}")
    if next_step is None:
        _say(f"nothing written: {target.value} can carry no kernel of build {found.id[:12]}")
        return ExitCode.NOT_ACHIEVED
    _say(f"{folder}: {len(export.carried)} of {len(found.manifest.kernels)} kernels\nnext: {next_step}")
    return ExitCode.DONE


def _say(text: str) -> None:
    result_console.print(text, highlight=False, markup=False, soft_wrap=True)
