"""What a sanitizer's report says of a kernel, in words of its task: which tensor, how far beyond it, which line.

The log is the kernel's as much as the sanitizer's: it can show a report that is none, and only harms itself.
"""

import re
from dataclasses import dataclass
from enum import StrEnum

from candidates.task import InputRole, KernelTask, TensorSpec

NEAR_BYTES = 1 << 20
"""Unmapped on both sides of a tensor, as kernel_sandbox/runners/sanitizer_runner.cpp lays it out."""
_SHOWN_LINES = 24

_ANNOUNCED = re.compile(r"^sanitizer_runner: (prepare|call) (\d+)((?: \S+\+\d+)*)$", re.M)
_UNDEFINED = re.compile(r"^(\S+?):(\d+):\d+: runtime error: (.+)$", re.M)
_ADDRESS = re.compile(r"AddressSanitizer: (?!ABORTING)(\S.+)$", re.M)
_AT = re.compile(r"address (0x[0-9a-f]+)")
_ACCESS = re.compile(r"^(READ|WRITE) of size (\d+) at|caused by a (READ|WRITE) memory access", re.M)
_LOCATED = re.compile(r"^0x[0-9a-f]+ is located (.+?)(?:\s*\[0x.*)?$", re.M)
_FRAME = re.compile(r"^\s+#\d+ 0x[0-9a-f]+ in (.+?) (?:\S*/)?candidate\.cpp:(\d+)", re.M)
_STACK_OBJECT = re.compile(r"^\s+\[\d+, \d+\) '([^']+)'.*<==", re.M)
_MEMORY_HEADLINES = ("out-of-memory", "allocation-size-too-big", "calloc-overflow", "hard rss limit")
_CRASH_HEADLINES = ("ABRT", "ILL", "FPE", "TRAP")


class ReportKind(StrEnum):
    NONE = "none"
    ADDRESS = "address"
    UNDEFINED = "undefined"
    MEMORY = "memory"
    """The program ran out of it."""
    CRASH = "crash"
    """An abort or a trap that no sanitizer has to explain."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SanitizerReport:
    kind: ReportKind
    message: str
    call: int | None
    """Number of the call that was going on; None while parameters were prepared, or before."""
    text: str
    """The report's first lines, or the log's last ones where there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    name: str
    is_writable: bool
    is_gone: bool
    """Given to an earlier call."""
    start: int
    size_bytes: int


def read_report(task: KernelTask, log: str) -> SanitizerReport:
    announced = list(_ANNOUNCED.finditer(log))
    call = int(announced[-1][2]) if announced and announced[-1][1] == "call" else None
    undefined = list(_UNDEFINED.finditer(log))
    address = [found for found in _ADDRESS.finditer(log) if not found.string.startswith("SUMMARY", _line_start(found))]
    if not undefined and not address:
        return SanitizerReport(kind=ReportKind.NONE, message="", call=call, text=_shown(log[-4000:]))
    if undefined and (not address or address[-1].start() < undefined[-1].start()):
        found = undefined[-1]
        kind, message = ReportKind.UNDEFINED, f"{found[3]} at {found[1].rpartition('/')[2]}:{found[2]}"
    else:
        found = address[-1]
        kind = _kind_of(found[1])
        message = _describe(found[1], log[found.start() :], _blocks(task, announced))
    return SanitizerReport(kind=kind, message=message, call=call, text=_shown(log[_line_start(found) :]))


def _kind_of(headline: str) -> ReportKind:
    if any(words in headline for words in _MEMORY_HEADLINES):
        return ReportKind.MEMORY
    return ReportKind.CRASH if headline.startswith(_CRASH_HEADLINES) else ReportKind.ADDRESS


def _describe(headline: str, report: str, blocks: list[_Block]) -> str:
    access = _ACCESS.search(report)
    verb, size = "touches", ""
    if access is not None:
        verb = "reads" if (access[1] or access[3]) == "READ" else "writes"
        size = f" {access[2]} bytes" if access[2] else " memory"
    frame = _FRAME.search(report)
    line = f" at candidate.cpp:{frame[2]}" if frame is not None else ""
    at = _AT.search(headline)
    where = _place(int(at[1], 16), verb, blocks) if at is not None else None
    if where is not None:
        return f"{verb}{size}{where}{line}"
    located, on_stack = _LOCATED.search(report), _STACK_OBJECT.search(report)
    details = [f"{verb}{size}"] if access is not None else []
    details += [located[1]] if located is not None else []
    details += [f"beside {on_stack[1]}"] if on_stack is not None else []
    return f"{_AT.split(headline)[0].removesuffix(' on ').removesuffix(' on unknown ')}{line}" + (
        f": {', '.join(details)}" if details else ""
    )


def _place(address: int, verb: str, blocks: list[_Block]) -> str | None:
    """In words where it is, for an address near a tensor."""

    def distance(block: _Block) -> int:
        return max(block.start - address, address - (block.start + block.size_bytes) + 1, 0)

    nearest = min(blocks, key=lambda block: (distance(block), block.is_gone), default=None)
    if nearest is None or distance(nearest) > NEAR_BYTES:
        return None
    name = f"{nearest.name} ({nearest.size_bytes} bytes{', of an earlier call' if nearest.is_gone else ''})"
    offset = address - nearest.start
    if offset < 0:
        return f", {-offset} bytes before the start of {name}"
    if offset >= nearest.size_bytes:
        return f", {offset - nearest.size_bytes} bytes beyond the end of {name}"
    if verb == "writes" and not nearest.is_writable and not nearest.is_gone:
        return f" into {name}, which is an input"
    return f" at byte {offset} of {name}"


def _blocks(task: KernelTask, announced: list["re.Match[str]"]) -> list[_Block]:
    parameters = task.inputs_of(InputRole.PARAMETER)
    of_call: tuple[TensorSpec, ...] = (*task.inputs, *task.outputs)
    blocks: list[_Block] = []
    for line in announced:
        specs = of_call if line[1] == "call" else parameters
        is_last = line is announced[-1]
        for index, place in enumerate(line[3].split()):
            start, size = place.split("+")
            if index > len(specs):
                break
            spec = specs[index] if index < len(specs) else None
            is_parameter = spec is None or spec in parameters
            if int(start, 16) and (is_last or not is_parameter):
                blocks.append(
                    _Block(
                        name=spec.name if spec is not None else "prepared",
                        is_writable=spec is None or spec in task.outputs or spec in task.inputs_of(InputRole.STATE),
                        is_gone=not is_last,
                        start=int(start, 16),
                        size_bytes=int(size),
                    )
                )
    return blocks


def _line_start(found: "re.Match[str]") -> int:
    return found.string.rfind("\n", 0, found.start()) + 1


def _shown(text: str) -> str:
    """Without our own lines, the map of the shadow memory, and more lines than an author reads."""
    report = text.partition("\nShadow bytes around")[0]
    lines = [line for line in report.splitlines() if not line.startswith("sanitizer_runner: ")]
    return "\n".join(lines[:_SHOWN_LINES])
