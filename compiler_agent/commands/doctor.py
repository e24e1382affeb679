"""`compiler-agent doctor`: what this machine has, what is missing, and the command that mends it."""

from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from candidates.benchmark.exclusive import exclusive_slot
from candidates.ceilings import fingerprint_device, measure_ceilings
from compiler_agent.commands.options import JsonOption
from compiler_agent.machine import examine_machine
from compiler_agent.outcome import ExitCode, print_json, result_console
from compiler_agent.settings import read_settings


def doctor(
    ceilings: Annotated[bool, typer.Option(help="Also measure what the device can do (a few seconds).")] = True,
    json: JsonOption = False,
) -> ExitCode:
    """Checks this machine: compilers, sandbox, workflow server, GPU, language models and their keys, device ceilings.

    Example: compiler-agent doctor --no-ceilings
    """
    settings = read_settings()
    findings = examine_machine(settings)
    is_able = all(finding.is_there for finding in findings if finding.is_needed)
    has_compiler = any(finding.name == "C++ compiler" and finding.is_there for finding in findings)
    device = fingerprint_device()
    measured = None
    if ceilings and has_compiler:
        with exclusive_slot():
            measured = measure_ceilings(device, 1, settings.cache)
    if json:
        print_json(
            {
                "able": is_able,
                "findings": [
                    {
                        "name": finding.name,
                        "there": finding.is_there,
                        "needed": finding.is_needed,
                        "detail": finding.detail,
                        "fix": None if finding.is_there else finding.fix,
                    }
                    for finding in findings
                ],
                "device": {"id": device.id} | device.model_dump(mode="json"),
                "ceilings": None if measured is None else measured.model_dump(mode="json"),
            }
        )
        return ExitCode.DONE if is_able else ExitCode.USER_FAULT
    table = Table(box=None, show_header=False)
    for finding in findings:
        mark = "[green]yes[/]" if finding.is_there else "[bold red]NO[/]" if finding.is_needed else "[dim]no[/]"
        table.add_row(mark, finding.name, escape(finding.detail))
        if finding.is_needed and not finding.is_there:
            table.add_row("", "", f"fix: {escape(finding.fix)}")
    result_console.print(table)
    result_console.print(
        f"device {device.id}: {device.model}, {device.cores} cores, {device.compiler}", highlight=False
    )
    if measured is not None:
        for level in measured.read:
            result_console.print(
                f"  read {level.working_set_bytes / 1024:10.0f} KiB  {level.bytes_per_s / 1e9:7.1f} GB/s",
                highlight=False,
            )
        for element_type, rate in measured.flops_per_s.items():
            result_console.print(f"  {element_type} {rate / 1e9:.0f} GFLOP/s on one thread", highlight=False)
        result_console.print(f"  dispatch of one kernel call {measured.dispatch_us:.2f} us", highlight=False)
    return ExitCode.DONE if is_able else ExitCode.USER_FAULT
