"""What NVIDIA's assembler says of a CUDA kernel, by architecture: registers, shared memory, stack, spills.

ptxas does not know how many threads a block will have, nor shared memory that a launch asks for: occupancy is bounded
for a few block sizes, without dynamic shared memory.
"""

import re
from collections.abc import Iterator

from candidates.compiler_report import CompilerReport, KernelResources
from candidates.languages.gpu_occupancy import OccupancyBound, bound_occupancy

SOURCE = "candidate.cu"
REPORT = "report"
REPORT_FLAGS = ("-Xptxas", "-v")
LEFT_OUT = "left out:"

_BLOCK_SIZES = (128, 256, 512, 1024)
_MOST_KERNELS = 24
_MOST_WARNINGS = 8
_MOST_CHARACTERS = 160
_MOST_READ_CHARACTERS = 1 << 20

# "ptxas info    : Compiling entry function '_Z5scalePf' for 'sm_90a'", names demangled by c++filt
_ENTRY = re.compile(r"ptxas info\s*: Compiling entry function '(.*)' for '(sm_\d{1,4})[af]?'")
_STACK = re.compile(r"\s*(\d{1,12}) bytes stack frame, (\d{1,12}) bytes spill stores, (\d{1,12}) bytes spill loads")
_USED = re.compile(r"ptxas info\s*: Used (\d{1,12}) registers")
_SHARED = re.compile(r"\b(\d{1,12})(?:\+\d+)? bytes smem")
_WARNING = re.compile(rf"^{re.escape(SOURCE)}\((\d+)\): (warning .*)$")
_PTXAS_WARNING = re.compile(r"^ptxas warning\s*: (.*)$")


def read_report(report: str) -> CompilerReport:
    """`report` is LEFT_OUT with the architectures that are not NVIDIA's, then what nvcc wrote under REPORT_FLAGS."""
    first, _, report = report.partition("\n")
    others = re.findall(r"gfx[0-9a-f]+", first)
    notes = [f"{architecture} is not NVIDIA's: CUDA does not compile for it" for architecture in others]
    if len(report) > _MOST_READ_CHARACTERS:
        notes.append(f"{len(report) >> 10} KiB from the compiler, only the first 1024 are read")
        report = report[:_MOST_READ_CHARACTERS]
    lines = report.splitlines()
    kernels = sorted(_read_kernels(lines), key=lambda each: (each.kernel, int(each.architecture[3:])))
    if len(kernels) > _MOST_KERNELS:
        notes.append(f"{len(kernels) - _MOST_KERNELS} more kernels")
    notes += list(dict.fromkeys(_read_warnings(lines)))[:_MOST_WARNINGS]
    if kernels:
        notes.append("shared memory that a launch asks for is not in these figures")
    else:
        notes.append("the source has no __global__ function: nothing runs on the device")
    return CompilerReport(kernels=tuple(kernels[:_MOST_KERNELS]), notes=tuple(notes))


def _read_kernels(lines: list[str]) -> Iterator[KernelResources]:
    kernel: tuple[str, str] | None = None
    stack: tuple[int, ...] = (0, 0, 0)
    for line in lines:
        if found := _ENTRY.match(line):
            kernel, stack = (found[1], found[2]), (0, 0, 0)
        elif found := _STACK.match(line):
            stack = tuple(map(int, found.groups()))
        elif kernel is not None and (found := _USED.match(line)):
            shared = _SHARED.search(line)
            registers, shared_bytes = int(found[1]), int(shared[1]) if shared else 0
            yield KernelResources(
                kernel=_cut(kernel[0]),
                architecture=kernel[1],
                registers=registers,
                shared_bytes=shared_bytes,
                stack_bytes=stack[0],
                spill_store_bytes=stack[1],
                spill_load_bytes=stack[2],
                occupancy=tuple(_bounds(kernel[1], registers, shared_bytes)),
            )
            kernel = None


def _bounds(architecture: str, registers: int, shared_bytes: int) -> Iterator[OccupancyBound]:
    for threads in _BLOCK_SIZES:
        bound = bound_occupancy(
            architecture, registers_a_thread=registers, shared_bytes_a_block=shared_bytes, threads_a_block=threads
        )
        if bound is not None:
            yield bound


def _read_warnings(lines: list[str]) -> Iterator[str]:
    for line in lines:
        if found := _WARNING.match(line):
            yield _cut(f"line {found[1]}: {found[2]}")
        elif found := _PTXAS_WARNING.match(line):
            yield _cut(f"ptxas: {found[1]}")


def _cut(text: str) -> str:
    return text if len(text) <= _MOST_CHARACTERS else text[: _MOST_CHARACTERS - 1] + "…"
