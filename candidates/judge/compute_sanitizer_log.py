"""NVIDIA's compute-sanitizer: how it is called, and what its log says of a kernel.

The shape of the log is that of NVIDIA's guide (Compute Sanitizer 2024-2026, "Using Memcheck", "Using Racecheck" and so
on); the parser has not met a real one on a device of ours, only that of release 2026.4 where there is no driver. A log
without its summary is no clean bill: the tool, or what it watched, ended before.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from candidates.verdict import Reason

PROGRAM = "compute-sanitizer"
ERRORS_STATUS = 86
"""Of a run in which it found something; the watched program has no such status."""
ENVIRONMENT = {"PYTORCH_NO_CUDA_MEMORY_CACHING": "1"}
"""For what it watches: in torch's own pool, one tensor's end is another's start and nothing is out of bounds."""
_MOST_ERRORS_SHOWN = 20
_MOST_CHARACTERS = 300
_LAUNCH_TIMEOUT_S = 120


class Tool(StrEnum):
    MEMCHECK = "memcheck"
    RACECHECK = "racecheck"
    """Shared memory alone; blind to what global memory is raced for."""
    INITCHECK = "initcheck"
    SYNCCHECK = "synccheck"


_REASONS = {
    Tool.MEMCHECK: Reason.MEMORY_ERROR,
    Tool.INITCHECK: Reason.MEMORY_ERROR,
    Tool.RACECHECK: Reason.UNDEFINED_BEHAVIOUR,
    Tool.SYNCCHECK: Reason.UNDEFINED_BEHAVIOUR,
}
_LINE = re.compile(r"^=========( ?)(.*)$")
# Of a race that is a warning, such as one between the threads of a warp, the guide says that it may be meant.
_SUMMARY = re.compile(
    r"(?:ERROR|RACECHECK|INITCHECK|SYNCCHECK) SUMMARY: (?:[\d,]+ hazards? displayed \()?([\d,]+) errors?"
)
_NOT_PRINTED = re.compile(r"errors were not printed")
_HEADLINE = re.compile(
    r"(Invalid __\w+__ (?:read|write|atomic)|Uninitialized __\w+__ memory|Barrier error|Error: Race reported"
    r"|Program hit|Malloc/Free error|Potential|Fatal|Device not supported|Internal)"
)
_PLACE = re.compile(r"^\s+at (.+?)(?:\+0x[0-9a-f]+)?(?: in (?:\S*/)?(\S+?):(\d+))?$")


@dataclass(frozen=True, slots=True, kw_only=True)
class Clean:
    tool: Tool


@dataclass(frozen=True, slots=True, kw_only=True)
class Flawed:
    tool: Tool
    reason: Reason
    message: str
    """The first error, and where: `Invalid __global__ write of size 4 bytes at rows_of(float *) in candidate.cu:12`."""
    errors: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Unfinished:
    """It says nothing of the kernel."""

    tool: Tool
    message: str


def sanitizer_command(tool: Tool, log_file: str, watched: Sequence[str]) -> tuple[str, ...]:
    """`watched` runs under it, with ENVIRONMENT added to its own; the log goes to `log_file`."""
    options = [
        *("--tool", tool.value, "--log-file", log_file, "--error-exitcode", str(ERRORS_STATUS)),
        *("--print-limit", str(_MOST_ERRORS_SHOWN), "--target-processes", "application-only"),
        # It takes Python and torch longer to come to the GPU than the usual ten seconds, on a busy machine.
        *("--launch-timeout", str(_LAUNCH_TIMEOUT_S)),
    ]
    if tool is Tool.MEMCHECK:
        # At the first bad access everything ends, so that the shape is known; what follows is not of interest. Calls of
        # CUDA that fail are the host side's affair, and some of torch's may.
        options += ["--destroy-on-device-error", "context", "--report-api-errors", "no"]
    if tool is Tool.RACECHECK:
        options += ["--racecheck-report", "analysis"]
    return (PROGRAM, *options, *watched)


def read_sanitizer_log(tool: Tool, log: str) -> Clean | Flawed | Unfinished:
    lines = [found[2] for line in log.splitlines() if (found := _LINE.match(line))]
    if not lines:
        return Unfinished(tool=tool, message=f"{PROGRAM} wrote no log")
    counts = [
        int(found[1].replace(",", ""))
        for line in lines
        if not _NOT_PRINTED.search(line) and (found := _SUMMARY.search(line))
    ]
    first = next((at for at, line in enumerate(lines) if _HEADLINE.match(line)), None)
    if not counts:
        last = next((line.strip() for line in reversed(lines) if line.strip()), "")
        return Unfinished(tool=tool, message=f"{PROGRAM} wrote no summary; last: {last}"[:_MOST_CHARACTERS])
    errors = max(counts)
    if errors == 0:
        return Clean(tool=tool)
    if first is None:
        return Unfinished(tool=tool, message=f"{PROGRAM} counts {errors} errors and names none that we know")
    return Flawed(tool=tool, reason=_REASONS[tool], message=_describe(lines[first:]), errors=errors)


def _describe(lines: Sequence[str]) -> str:
    headline = lines[0].strip()
    place = next((found for line in lines[1:4] if (found := _PLACE.match(line))), None)
    where = ""
    if place is not None:
        where = f" at {place[1]}" + (f" in {place[2]}:{place[3]}" if place[2] else "")
    return f"{headline}{where}"[:_MOST_CHARACTERS]
