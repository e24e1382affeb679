"""What Triton made of a kernel, for its author: registers, spills, shared memory, occupancy, instructions by kind.

The figures come out of the sandbox: advice for the author, nothing that a judgement rests on.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from candidates.compiler_report import CompilerReport, KernelResources
from candidates.languages.gpu_architectures import find_architecture
from candidates.languages.gpu_instructions import count_kinds
from candidates.record import Record

_MOST_CHARACTERS = 2 << 20
_MOST_KERNELS = 32

_Figure = Annotated[int, Field(ge=0, le=1 << 40)]
_Name = Annotated[str, Field(min_length=1, max_length=200)]


class _Kernel(Record):
    kernel: _Name
    line: int = Field(ge=1, le=1_000_000)
    architecture: _Name
    warps: int = Field(ge=1, le=1024)
    shared_bytes: _Figure
    registers: _Figure = 0
    stack_bytes: _Figure = 0
    spill_store_bytes: _Figure = 0
    spill_load_bytes: _Figure = 0
    spilled_registers: _Figure = 0
    instructions: dict[_Name, _Figure] = Field(max_length=1000)
    """By name in the assembly."""
    grid: tuple[_Figure, ...] = Field(max_length=3)
    workloads: tuple[_Name, ...] = Field(max_length=64)


class _Report(Record):
    triton: _Name
    notes: tuple[_Name, ...] = Field(max_length=16)
    kernels: tuple[_Kernel, ...] = Field(max_length=1000)


def read_report(report: str) -> CompilerReport:
    """`report` is the compiler's report.json."""
    if len(report) > _MOST_CHARACTERS:
        return CompilerReport(notes=("the report is too long to read: compile fewer kernels",))
    try:
        read = _Report.model_validate_json(report)
    except ValidationError as error:
        return CompilerReport(notes=(f"the report cannot be read: {error.error_count()} of its fields are wrong",))
    kernels = _merge(read.kernels)
    notes = list(read.notes)
    if len(kernels) > _MOST_KERNELS:
        notes.append(f"{len(kernels) - _MOST_KERNELS} more kernels")
    notes.append(f"compiled by Triton {read.triton}, multiplications and additions fused unless a launch says no")
    return CompilerReport(kernels=tuple(kernels[:_MOST_KERNELS]), notes=tuple(notes))


def _merge(kernels: Sequence[_Kernel]) -> list[KernelResources]:
    """One for all specialisations whose figures are the same."""
    merged: dict[str, tuple[_Kernel, list[str]]] = {}
    for kernel in kernels:
        figures = kernel.model_copy(update={"workloads": (), "grid": ()}).model_dump_json()
        merged.setdefault(figures, (kernel, []))[1].extend(kernel.workloads)
    return [_describe(kernel, tuple(dict.fromkeys(workloads))) for kernel, workloads in merged.values()]


def _describe(kernel: _Kernel, workloads: Sequence[str]) -> KernelResources:
    architecture = find_architecture(kernel.architecture)
    bound = architecture and architecture.bound_occupancy(
        registers=kernel.registers, shared_bytes=kernel.shared_bytes, warps=kernel.warps
    )
    return KernelResources(
        kernel=kernel.kernel,
        line=kernel.line,
        architecture=kernel.architecture,
        registers=kernel.registers,
        shared_bytes=kernel.shared_bytes,
        stack_bytes=kernel.stack_bytes,
        spill_store_bytes=kernel.spill_store_bytes,
        spill_load_bytes=kernel.spill_load_bytes,
        spilled_registers=kernel.spilled_registers,
        occupancy=(bound,) if bound else (),
        launched=_describe_launch(kernel, workloads),
        instructions=count_kinds(kernel.instructions),
    )


def _describe_launch(kernel: _Kernel, workloads: Sequence[str]) -> str:
    blocks = " x ".join(map(str, kernel.grid))
    first, *others = workloads or ("",)
    also = f", also launched for {', '.join(others)}" if others else ""
    return f"{blocks} blocks of {kernel.warps} warps at {first}{also}"
