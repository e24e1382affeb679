"""`compiler-agent shadow-report`: what a live build says of itself."""

from json import loads
from pathlib import Path
from typing import Annotated

import typer
from pydantic import ValidationError
from rich.table import Table

from candidates.serving_build.end_to_end import KernelCalls
from compiler_agent.commands.options import JsonOption
from compiler_agent.outcome import ExitCode, UserFault, print_json, result_console
from compiler_agent.printable import printable


def shadow_report(
    counters: Annotated[Path, typer.Argument(help="What `Installation.write_counters` wrote in the serving process.")],
    json: JsonOption = False,
) -> ExitCode:
    """Shows calls, misses and shadow comparisons of each kernel; exit code 1 where one disagreed or was switched off.

    Example: compiler-agent shadow-report counters.json
    """
    try:
        document = loads(counters.read_text(encoding="utf-8"))
        kernels = {name: KernelCalls.model_validate(counts) for name, counts in document["kernels"].items()}
        build_id = str(document["build_id"])
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise UserFault(f"{counters} is no document of a build's counters: {error}") from error
    is_sound = all(_is_sound(kernel) for kernel in kernels.values())
    if json:
        print_json({"build": build_id, "is_sound": is_sound} | {"kernels": document["kernels"]})
        return ExitCode.DONE if is_sound else ExitCode.NOT_ACHIEVED
    table = Table("op", "hits", "misses", "compared", "disagreed", "failed", "state", box=None, header_style="bold")
    for kernel in kernels.values():
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
    result_console.print(f"build {printable(build_id[:12])}", highlight=False)
    result_console.print(table)
    return ExitCode.DONE if is_sound else ExitCode.NOT_ACHIEVED


def _is_sound(kernel: KernelCalls) -> bool:
    return kernel.switched_off is None and not kernel.shadow.get("disagreed") and not kernel.shadow.get("failed")
