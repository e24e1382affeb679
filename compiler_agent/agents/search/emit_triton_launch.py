"""A jitted function and the statement of the host that launches it."""

import re
from collections.abc import Mapping, Sequence

from compiler_agent.agents.search.program import Program


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
) -> tuple[str, str]:
    """The function and its launch over `grid`.

    Its parameters are what `body` mentions of the call and of `values`, then `constants`, which are tl.constexpr;
    `options` are for the launch alone.
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
    return "\n".join(function), f"{name}[({', '.join(grid)},)]({', '.join(arguments)})"


def members_of(program: Program) -> list[str]:
    """What a kernel may use: tensors and sizes as the host function receives them, and its own buffers."""
    task = program.task
    tensors = [spec.name for spec in (*task.inputs, *task.outputs)]
    return [*tensors, *task.axes, *(scratch.name for scratch in program.scratch)]
