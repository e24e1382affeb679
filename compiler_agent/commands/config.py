"""`compiler-agent config`: which settings there are, what they are and where from, and whether they can work."""

import os
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from compiler_agent.check_configuration import check_configuration
from compiler_agent.commands.options import JsonOption
from compiler_agent.configuration import Configuration, Loaded, shown, value_of
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.setting_keys import KEYS

app = typer.Typer(help="Settings: from compiler-agent.toml, overridden by the environment.", no_args_is_help=True)


@app.command("show")
def show(context: typer.Context, json: JsonOption = False) -> ExitCode:
    """Shows every setting, its value and where that is from; of secrets only whether they are set.

    Example: compiler-agent --config /etc/compiler-agent.toml config show
    """
    configuration = _loaded(context)
    rows = [
        {
            "key": key.name,
            "variable": key.variable,
            "value": shown(key, value_of(key, os.environ)),
            "source": str(configuration.source(key, os.environ)),
            "sentence": key.sentence,
        }
        for key in KEYS
    ]
    if json:
        print_json({"file": None if configuration.file is None else str(configuration.file), "settings": rows})
        return ExitCode.DONE
    table = Table(box=None, pad_edge=False)
    for heading in ("key", "value", "from", "variable", ""):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(*(escape(row[name]) for name in ("key", "value", "source", "variable", "sentence")))
    result_console.print(f"file: {configuration.file or 'none'}", highlight=False, markup=False)
    result_console.print(table)
    return ExitCode.DONE


@app.command("check")
def check(
    context: typer.Context,
    machine: Annotated[
        bool, typer.Option(help="Also try what they name: folders, ledger, Temporal, sandbox, files, GPU.")
    ] = True,
    json: JsonOption = False,
) -> ExitCode:
    """Reads every setting as the commands do, and tries what they name; exit 2 where something is wrong.

    Example: compiler-agent config check --json
    """
    configuration = _loaded(context)
    findings = check_configuration(os.environ, tries=machine)
    if json:
        print_json(
            {
                "able": all(finding.is_there for finding in findings),
                "findings": [
                    {
                        "name": finding.name,
                        "there": finding.is_there,
                        "detail": configuration.explain(finding.detail),
                        "fix": None if finding.is_there else finding.fix or None,
                    }
                    for finding in findings
                ],
            }
        )
    else:
        table = Table(box=None, show_header=False, pad_edge=False)
        for finding in findings:
            table.add_row(
                "[green]ok[/]" if finding.is_there else "[bold red]WRONG[/]",
                finding.name,
                escape(configuration.explain(finding.detail)),
            )
            if not finding.is_there and finding.fix:
                table.add_row("", "", f"fix: {escape(finding.fix)}")
        result_console.print(table)
    return ExitCode.DONE if all(finding.is_there for finding in findings) else ExitCode.USER_FAULT


def _loaded(context: typer.Context) -> Configuration:
    loaded: Loaded = context.obj
    return loaded.configuration
