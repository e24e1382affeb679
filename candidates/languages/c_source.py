"""What C++ and CUDA candidates have in common: the header of their text, options for the compiler, words of a brief.

The leading comment lines of a candidate's text may say, each at most once and all optional:

    // entry: kernel            the function to call (default `kernel`)
    // prepare: pack            the function that repacks parameters (default none)
    // launch: tile=8 rows=4    macros LAUNCH_tile and LAUNCH_rows for the compiler
    // flags: -funroll-loops    flags added to the recipe
"""

import re
from pathlib import Path

from candidates.candidate import Candidate, LanguageName
from candidates.language import SourceRefused
from candidates.task import InputSpec, KernelTask, TensorSpec

_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_LAUNCH_VALUE = re.compile(r"-?[0-9][0-9.eE+-]{0,99}|[A-Za-z_][A-Za-z0-9_]{0,99}")
_MOST_OPTIONS = 64
"""Flags and launch parameters of a candidate: a command line has its limits."""
_HEADER_LINE = re.compile(r"//\s*(entry|prepare|launch|flags):\s*(.*?)\s*")


def parse_text(text: str, name: str, language: LanguageName) -> Candidate:
    """Raises ValueError with `name` and line."""
    header: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), start=1):
        if not line.startswith("//"):
            break
        if found := _HEADER_LINE.fullmatch(line):
            key, value = found.groups()
            if key in header:
                raise ValueError(f"{name}:{number}: a second `{key}:` line")
            if not value:
                raise ValueError(f"{name}:{number}: `{key}:` says nothing")
            header[key] = value
            if key == "launch" and not all(re.fullmatch(r"\w+=\S+", item) for item in value.split()):
                raise ValueError(f"{name}:{number}: launch parameters are written name=value")
    if not text.strip():
        raise ValueError(f"{name}:1: the file is empty")
    launch = dict(item.split("=", 1) for item in header.get("launch", "").split())
    return Candidate(
        language=language,
        source=text,
        entry=header.get("entry", "kernel"),
        prepare=header.get("prepare"),
        launch_parameters={key: _number_or_text(value) for key, value in launch.items()},
        build_flags=tuple(header.get("flags", "").split()),
    )


def read_text(path: Path) -> str:
    """Raises ValueError with the path for a file that is not UTF-8."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path}: not UTF-8 text ({error.reason} at byte {error.start})") from error


def require_harmless(candidate: Candidate, flags: re.Pattern[str]) -> None:
    """Raises SourceRefused for entries, flags and launch parameters that reach beyond the kernel."""
    for entry in filter(None, (candidate.entry, candidate.prepare)):
        if not _IDENTIFIER.fullmatch(entry) or entry.startswith("compiler_agent_"):
            raise SourceRefused(
                f"{entry[:100]!r} cannot name an entry: use a C identifier of up to 100 letters, without prefix "
                "compiler_agent_"
            )
    if (count := len(candidate.build_flags) + len(candidate.launch_parameters)) > _MOST_OPTIONS:
        raise SourceRefused(f"{count} flags and launch parameters: use {_MOST_OPTIONS} at most")
    for flag in candidate.build_flags:
        if not flags.fullmatch(flag):
            raise SourceRefused(f"build flag {flag!r} is not allowed; these are: {flags.pattern}")
    for name, value in candidate.launch_parameters.items():
        if not _IDENTIFIER.fullmatch(name) or not _LAUNCH_VALUE.fullmatch(str(value)):
            shown = f"{name}={value}"[:100]
            raise SourceRefused(f"launch parameter {shown} is not an identifier with a number or identifier")


def macros(candidate: Candidate) -> tuple[str, ...]:
    """Launch parameters for the compiler: `{"tile": 8}` is `-DLAUNCH_tile=8`, no name that a source has already."""
    return tuple(f"-DLAUNCH_{name}={value}" for name, value in sorted(candidate.launch_parameters.items()))


def describe_tensor(spec: TensorSpec) -> str:
    shape = ", ".join(map(str, spec.shape))
    layout = "row-major" if spec.dim_order == tuple(range(len(spec.shape))) else f"dims in memory {spec.dim_order}"
    role = spec.role.value if isinstance(spec, InputSpec) else "output, to be written in full"
    values = f", values 0 to {spec.below - 1}" if isinstance(spec, InputSpec) and spec.below is not None else ""
    return f"[{shape}] {spec.element_type.value}, {layout}, {role}{values}"


def describe_shapes(task: KernelTask) -> str:
    """The public ones."""
    weights = [f"- {workload.name}: {workload.calls_per_hour:.6g} calls per hour" for workload in task.public_workloads]
    others = "Other shapes of the same kind are judged too." if task.hidden_workloads else "No others are judged."
    return "\n".join(["Shapes, weighted by how often production calls them:", *weights, others])


def _number_or_text(text: str) -> int | float | str:
    for convert in (int, float):
        try:
            return convert(text)
        except ValueError:
            continue
    return text
