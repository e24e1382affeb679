"""What Triton made of a kernel, for its author: registers, spills, shared memory, occupancy, instructions by kind.

The figures come out of the sandbox: advice for the author, nothing that a judgement rests on.
"""

from collections.abc import Sequence
from typing import Annotated

from pydantic import Field, ValidationError

from candidates.compiler_report import CompilerReport, GpuKernel
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
    stages: _Figure = 0
    shared_bytes: _Figure
    registers: _Figure = 0
    scalar_registers: _Figure = 0
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
    torch: _Name
    has_fp_fusion: bool
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
    fusion = "with" if read.has_fp_fusion else "without"
    notes.append(f"compiled by Triton {read.triton} {fusion} fusion of multiplications and additions")
    return CompilerReport(gpu_kernels=tuple(kernels[:_MOST_KERNELS]), notes=tuple(notes))


def _merge(kernels: Sequence[_Kernel]) -> list[GpuKernel]:
    """One for all specialisations whose figures are the same."""
    merged: dict[str, GpuKernel] = {}
    for each in map(_describe, kernels):
        known = merged.get(each.headline())
        workloads = each.workloads if known is None else tuple(dict.fromkeys((*known.workloads, *each.workloads)))
        merged[each.headline()] = (known or each).model_copy(update={"workloads": workloads})
    return list(merged.values())


def _describe(kernel: _Kernel) -> GpuKernel:
    architecture = find_architecture(kernel.architecture)
    bound = architecture and architecture.bound_occupancy(
        registers=kernel.registers, shared_bytes=kernel.shared_bytes, warps=kernel.warps
    )
    spills = f"{kernel.spilled_registers} registers" if kernel.spilled_registers else ""
    if kernel.spill_store_bytes or kernel.spill_load_bytes:
        spills = f"{kernel.spill_store_bytes} bytes stored, {kernel.spill_load_bytes} loaded"
    return GpuKernel(
        name=kernel.kernel,
        line=kernel.line,
        architecture=kernel.architecture,
        registers=kernel.registers,
        shared_bytes=kernel.shared_bytes,
        stack_bytes=kernel.stack_bytes,
        spills=spills,
        warps=kernel.warps,
        occupancy=str(bound) if bound else "",
        instructions=count_kinds(kernel.instructions),
        grid=kernel.grid,
        workloads=kernel.workloads,
    )
