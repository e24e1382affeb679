"""CompilerReport: what the compiler made of a candidate, for an author (a person or a model) to act on."""

from typing import Protocol

from pydantic import Field

from candidates.candidate import Candidate, LanguageName
from candidates.language import BuildRecipe
from candidates.languages.gpu_occupancy import OccupancyBound
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


class KernelResources(Record):
    """What a kernel on a GPU takes, by the account of its assembler."""

    kernel: str
    architecture: str
    registers: int = Field(ge=0)
    """Of each thread."""
    shared_bytes: int = Field(ge=0)
    """Of each block; without what a launch asks for beside it."""
    stack_bytes: int = Field(ge=0)
    """Of each thread, in device memory: local arrays and spilled registers."""
    spill_store_bytes: int = Field(ge=0)
    spill_load_bytes: int = Field(ge=0)
    spilled_registers: int = Field(ge=0, default=0)
    """Of AMD's, whose assembler counts these and no bytes."""
    occupancy: tuple[OccupancyBound, ...] = ()
    """By threads a block, ascending; empty where the architecture's limits are not known."""
    line: int | None = None
    """Of the candidate's source; None where the compiler does not say."""
    launched: str = ""
    """With how many blocks, for which workloads; empty where the compiler does not know."""
    instructions: dict[str, int] = Field(default_factory=dict)
    """How many the code holds, by kind; empty where they are not counted."""

    def headline(self) -> str:
        spills = "no spills"
        if self.spill_store_bytes or self.spill_load_bytes:
            spills = f"SPILLS {self.spill_store_bytes} bytes stored, {self.spill_load_bytes} loaded"
        elif self.spilled_registers:
            spills = f"SPILLS {self.spilled_registers} registers"
        occupancy = "".join(
            f"; {bound.threads_a_block} threads: {bound.share_of_warps:.0%} by {' and '.join(bound.limited_by)}"
            for bound in self.occupancy
        )
        line = f" (line {self.line})" if self.line is not None else ""
        return (
            f"{self.kernel}{line} on {self.architecture}: {self.registers} registers, "
            f"{self.shared_bytes} bytes shared, {self.stack_bytes} bytes stack, {spills}{occupancy}"
        )


class CompilerReport(Record):
    """Empty but for the message where the candidate does not build."""

    failure: str = ""
    """The compiler's message; empty for a candidate that builds."""
    remarks: tuple[Remark, ...] = ()
    loops: tuple[LoopCode, ...] = ()
    """Those with most arithmetic first, the more for every loop around it. Which of them is hot is not measured."""
    kernels: tuple[KernelResources, ...] = ()
    """Of a GPU language, which has them instead of remarks and loops."""
    notes: tuple[str, ...] = ()
    """What a reader must know: what was left out, what this machine's report cannot show."""

    @property
    def vector_bits(self) -> int:
        """Of the widest loop; 0 without vector code in a loop."""
        return max((loop.vector_bits for loop in self.loops), default=0)

    def as_text(self, most_characters: int = MOST_CHARACTERS) -> str:
        """Whole lines, never more than `most_characters` in all."""
        if self.failure:
            lines = ["The candidate does not build:", self.failure]
        else:
            lines = [*self._kernel_lines(), *self._loop_lines(), *(f"Note: {note}" for note in self.notes)]
        return _bounded("\n".join(lines).splitlines(), most_characters)

    def _kernel_lines(self) -> list[str]:
        if not self.kernels:
            return []
        lines = ["Kernels, and the most of a multiprocessor's warps that they can fill, by threads a block:"]
        for kernel in self.kernels:
            lines.append(f"  {kernel.headline()}")
            if kernel.launched:
                lines.append(f"    {kernel.launched}")
            if kernel.instructions:
                counts = ", ".join(f"{count} {kind}" for kind, count in kernel.instructions.items())
                lines.append(f"    in its code: {counts}")
        return lines

    def _loop_lines(self) -> list[str]:
        if not (self.remarks or self.loops):
            return []
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
        return lines


class CompilerReporter(Protocol):
    """What a language adds to be able to report."""

    name: LanguageName

    def report_recipe(self, task: KernelTask, candidate: Candidate) -> BuildRecipe:
        """Builds the candidate as its build recipe does; the artifact is for `read_report`.

        Raises SourceRefused as the build does."""
        ...

    def read_report(self, candidate: Candidate, report: bytes) -> CompilerReport:
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
