"""`compiler-agent shadow-report`: what a live build says of itself."""

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table

from candidates.printable import printable
from candidates.serving_build.counters import read_counters
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, print_json, result_console

_SHOWN = 5


def shadow_report(
    counters: Annotated[Path, typer.Argument(help="What `Installation.write_counters` wrote in the serving process.")],
    json: JsonOption = False,
) -> ExitCode:
    """Shows calls, misses and shadow comparisons of each kernel; exit code 1 where one disagreed or was switched off.

    Example: compiler-agent shadow-report counters.json
    """
    read = read_counters(counters)
    is_sound = all(kernel.is_sound for kernel in read.kernels.values())
    if json:
        print_json(read.model_dump(mode="json") | {"is_sound": is_sound})
        return ExitCode.DONE if is_sound else ExitCode.NOT_ACHIEVED
    table = Table("op", "hits", "misses", "compared", "disagreed", "failed", "state", box=None, header_style="bold")
    for kernel in read.kernels.values():
        compared = sum(kernel.shadow.values())
        state = "serves" if kernel.switched_off is None else f"switched off: {kernel.switched_off}"
        table.add_row(
            printable(kernel.op),
            str(kernel.hits),
            str(kernel.misses),
            str(compared),
            *(str(kernel.shadow.get(name, 0)) for name in ("disagreed", "failed")),
            printable(state),
        )
    result_console.print(f"build {printable(read.build_id[:12])}", highlight=False)
    result_console.print(table)
    for kernel in read.kernels.values():
        reasons = ", ".join(f"{count} {reason}" for reason, count in kernel.miss_reasons.items())
        shapes = ", ".join(f"{count} at {shape}" for shape, count in list(kernel.missed_shapes.items())[:_SHOWN])
        if reasons:
            text = f"{kernel.op} missed: {reasons}{f' ({shapes})' if shapes else ''}"
            result_console.print(printable(text), highlight=False)
    return ExitCode.DONE if is_sound else ExitCode.NOT_ACHIEVED
