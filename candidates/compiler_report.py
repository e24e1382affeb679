"""CompilerReport: what the compiler made of a candidate, for an author (a person or a model) to act on."""

from typing import Protocol

from pydantic import Field

from candidates.candidate import Candidate, LanguageName
from candidates.language import BuildRecipe
from candidates.record import Record
from candidates.task import KernelTask

MOST_CHARACTERS = 6000


class Remark(Record):
    """What the vectoriser says of one line of the candidate's source."""

    line: int = Field(ge=1)
    source: str
    """The line itself, cut where it is long."""
    is_vectorized: bool
    text: str
    """The compiler's words."""


class LoopCode(Record):
    """A loop of the machine code, without the loops inside it."""

    function: str
    """As the linker names it; `NAME._omp_fn.0` is the body of the first parallel region of NAME."""
    depth: int = Field(ge=1)
    """1: in no other loop of the function."""
    first_line: int | None
    """Of the candidate's source; None for code that comes from no line of it."""
    last_line: int | None
    instructions: int = Field(ge=1)
    vector_instructions: int = Field(ge=0)
    vector_bits: int = Field(ge=0)
    """Width of the widest register that a vector instruction uses; 0 without any."""
    scalar_float_instructions: int = Field(ge=0)
    """Arithmetic on one element at a time."""
    stack_accesses: int = Field(ge=0)
    """Through the stack pointer: spilled registers, and local arrays that got no registers."""
    calls: tuple[str, ...]
    assembly: str
    """Its first instructions, `# line N` where the source line changes."""
    left_out: int = Field(ge=0)
    """Instructions that `assembly` does not show."""

    def headline(self) -> str:
        lines = f"lines {self.first_line}-{self.last_line}" if self.first_line is not None else "no line of the source"
        vectors = f"{self.vector_instructions} vector ({self.vector_bits}-bit)" if self.vector_bits else "none vector"
        return (
            f"{self.function}, {lines}, depth {self.depth}: {self.instructions} instructions, {vectors}, "
            f"{self.scalar_float_instructions} scalar float, {self.stack_accesses} touch the stack, "
            f"calls {', '.join(self.calls) or 'nothing'}"
        )


class GpuKernel(Record):
    """What one kernel became for one architecture, as one specialisation of it is launched."""

    name: str
    line: int | None
    """Of the candidate's source."""
    architecture: str
    registers: int = Field(ge=0)
    """Of 32 bits, a thread; AMD's vector registers."""
    shared_bytes: int = Field(ge=0)
    """A block."""
    stack_bytes: int = Field(ge=0)
    """A thread, in local memory."""
    spills: str
    """Which registers had to be kept in local memory; empty without."""
    warps: int = Field(ge=1)
    occupancy: str
    """Bound on the share of a multiprocessor's warps that can be there at once; empty where it is not known."""
    instructions: dict[str, int]
    """How many the code holds, by kind."""
    grid: tuple[int, ...]
    """Blocks of the first launch; empty where it is not known."""
    workloads: tuple[str, ...]

    def headline(self) -> str:
        counts = ", ".join(f"{count} {kind}" for kind, count in self.instructions.items())
        where = f"line {self.line}" if self.line is not None else "no line of the source"
        return (
            f"{self.name} ({where}) on {self.architecture}: {self.registers} registers, {self.shared_bytes} bytes "
            f"shared, {self.warps} warps, occupancy at most {self.occupancy or 'unknown'}, "
            f"spills {self.spills or 'nothing'}, stack {self.stack_bytes} bytes; "
            f"instructions: {counts or 'not counted'}"
        )


class CompilerReport(Record):
    """Empty but for the message where the candidate does not build."""

    failure: str = ""
    """The compiler's message; empty for a candidate that builds."""
    remarks: tuple[Remark, ...] = ()
    loops: tuple[LoopCode, ...] = ()
    """Those with most arithmetic first, the more for every loop around it. Which of them is hot is not measured."""
    gpu_kernels: tuple[GpuKernel, ...] = ()
    """In languages for GPUs; these have no remarks and loops."""
    notes: tuple[str, ...] = ()
    """What a reader must know: what was left out, what this machine's report cannot show."""

    @property
    def vector_bits(self) -> int:
        """Of the widest loop; 0 without vector code in a loop."""
        return max((loop.vector_bits for loop in self.loops), default=0)

    def as_text(self, most_characters: int = MOST_CHARACTERS) -> str:
        """Whole lines, never more than `most_characters` in all."""
        lines = ["The candidate does not build:", self.failure] if self.failure else self._lines()
        return _bounded("\n".join(lines).splitlines(), most_characters)

    def _lines(self) -> list[str]:
        if self.gpu_kernels:
            return [*self._gpu_lines(), *(f"Note: {note}" for note in self.notes)]
        lines = ["Vectoriser, by line of the source:"]
        lines += [f"  {remark.line}: {remark.text} | {remark.source}" for remark in self.remarks]
        if not self.remarks:
            lines.append("  it says nothing")
        lines.append(
            "Loops of the machine code, each without those inside it, the likely hottest first (not measured):"
        )
        if not self.loops:
            lines.append("  none")
        for number, loop in enumerate(self.loops, start=1):
            lines.append(f"loop {number}: {loop.headline()}")
            lines += [f"    {line}" for line in loop.assembly.splitlines()]
            if loop.left_out:
                lines.append(f"    ({loop.left_out} more instructions)")
        return [*lines, *(f"Note: {note}" for note in self.notes)]

    def _gpu_lines(self) -> list[str]:
        lines = ["Kernels as compiled, by architecture (counts are of the code, not of what runs):"]
        for kernel in self.gpu_kernels:
            lines.append(f"- {kernel.headline()}")
            if kernel.grid and kernel.workloads:
                others = f", also for {', '.join(kernel.workloads[1:])}" if kernel.workloads[1:] else ""
                lines.append(f"    {' x '.join(map(str, kernel.grid))} blocks at {kernel.workloads[0]}{others}")
        return lines


class CompilerReporter(Protocol):
    """What a language adds to be able to report."""

    name: LanguageName

    def report_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Builds the candidate as its build recipe does; the artifact is text for `read_report`.

        Raises SourceRefused as the build does."""
        ...

    def read_report(self, candidate: Candidate, report: str) -> CompilerReport:
        """Never raises for what a candidate wrote into the report."""
        ...


def _bounded(lines: list[str], most_characters: int) -> str:
    cut = "(cut here)"
    kept: list[str] = []
    room = most_characters
    for number, line in enumerate(lines):
        room -= len(line) + 1
        is_last = number == len(lines) - 1
        if room < (0 if is_last else len(cut)):
            return "\n".join([*kept, cut])
        kept.append(line)
    return "\n".join(kept)
