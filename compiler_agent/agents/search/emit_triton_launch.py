"""A jitted function and the statement of the host that launches it."""

import re
from collections.abc import Mapping, Sequence
from typing import get_args

import sympy  # type: ignore[import-untyped]  # ships no types

from compiler_agent.agents.search.expressions import Size
from compiler_agent.agents.search.formulas import integer
from compiler_agent.agents.search.program import Program
from compiler_agent.agents.search.triton_schedule import TritonSchedule

LINE_LENGTH = 110


def launched(
    name: str,
    comment: str,
    body: Sequence[str],
    program: Program,
    *,
    grid: Sequence[str],
    values: Mapping[str, str],
    constants: Mapping[str, str],
    options: Mapping[str, str],
) -> tuple[str, list[str]]:
    """The function and its launch over `grid`.

    Its parameters are what `body` mentions of the call and of `values`, then `constants`, which are tl.constexpr;
    `options` are for the launch alone. The launch is a statement in lines.
    """
    mentioned = set(re.findall(r"[A-Za-z_]\w*", "\n".join(body)))
    members = [member for member in members_of(program) if member in mentioned]
    used = {value: code for value, code in values.items() if value in mentioned}
    parameters = [*members, *used, *(f"{constant}: tl.constexpr" for constant in constants)]
    function = [
        f"# {name}: {comment}",
        "@triton.jit",
        f"def {name}({', '.join(parameters)}):",
        *(f"    {line}" for line in body),
    ]
    arguments = [*members, *used.values(), *(f"{key}={code}" for key, code in (*constants.items(), *options.items()))]
    over = f"({grid[0]},)" if len(grid) == 1 else f"({', '.join(grid)})"
    return "\n".join(function), _call(f"{name}[{over}]", arguments)


def members_of(program: Program) -> list[str]:
    """What a kernel may use: tensors and sizes as the host function receives them, and its own buffers."""
    task = program.task
    tensors = [spec.name for spec in (*task.inputs, *task.outputs)]
    return [*tensors, *task.axes, *(scratch.name for scratch in program.scratch)]


def power_of_2(extent: Size) -> str:
    """The smallest that is not below `extent`."""
    if extent.is_number:
        return str(1 << (int(extent) - 1).bit_length())
    return f"triton.next_power_of_2({integer(extent)})"


def at_most(field: str, extent: str) -> str:
    """The size of a tile: the launch parameter `field`, but no power of 2 above the smallest that holds `extent`."""
    if not extent.isdigit():
        return f"min(LAUNCH_{field}, triton.next_power_of_2({extent}))"
    size = power_of_2(sympy.Integer(int(extent)))
    largest = max(get_args(TritonSchedule.model_fields[field].annotation))
    return f"LAUNCH_{field}" if int(size) >= largest else f"min(LAUNCH_{field}, {size})"


def _call(callee: str, arguments: Sequence[str]) -> list[str]:
    line = f"{callee}({', '.join(arguments)})"
    if len(line) <= LINE_LENGTH:
        return [line]
    positional = [argument for argument in arguments if "=" not in argument]
    named = [argument for argument in arguments if "=" in argument]
    return [f"{callee}(", f"    {', '.join(positional)},", f"    {', '.join(named)},", ")"]
