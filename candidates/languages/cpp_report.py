"""What GCC says of a kernel and what it made of it: remarks of its vectoriser, and the loops of its assembly.

Loops are read on x86-64 only. The assembly is that of the build: line numbers (`-g1`) change no instruction.
"""

import platform
import re
from collections.abc import Sequence

from candidates.compiler_report import CompilerReport, LoopCode, Remark
from candidates.languages.machine_loops import Instruction, Loop, find_loops

SOURCE = "candidate.cpp"
REPORT = "report"
REPORT_FLAGS = ("-S", "-g1", f"-fopt-info-vec-optimized-missed={REPORT}")

_MOST_REMARKS = 24
_MOST_LOOPS = 3
_MOST_LINES_OF_ASSEMBLY = 60
_LINES_LEFT_FOR_OTHERS = 10
_LIKELY_ITERATIONS = 8
"""Of a loop that nobody has watched; as static branch prediction has it (Ball and Larus, 1993)."""
_MOST_SOURCE_CHARACTERS = 80
_MOST_REMARK_CHARACTERS = 120
_MOST_NAME_CHARACTERS = 80
_MOST_CALLS = 8
_MOST_READ_CHARACTERS = 2 << 20
"""Of a report: whoever generates more code than that would keep us reading for minutes."""

_REMARK = re.compile(rf"^{re.escape(SOURCE)}:(\d{{1,7}}):\d+: (optimized|missed):\s+(.*)$", re.M)
_GENERAL = "couldn't vectorize loop"
# Vectors by intrinsics are no failure to vectorise; what else "clobbers memory" are calls, which the loops show.
_SAYS_NOTHING = re.compile(r"no vectype for stmt|clobbers memory|\*\*\*\*\*")

_REGISTER = re.compile(r"%([xyz])mm\d")
_BITS = {"x": 128, "y": 256, "z": 512}
_SCALAR = re.compile(r"v?(?:\w+s[sd]|mov[dq]|cvt\w*si2\w+|cvtt?s[sd]2\w+)")
_MOVES = re.compile(r"v?(?:mov\w+|p?xor\w*)")
_CALL = re.compile(r"call\w*\s+(\S+)")


def read_report(source: str, report: str) -> CompilerReport:
    """`report` is what REPORT_FLAGS left: remarks first, then the assembly."""
    if len(report) > _MOST_READ_CHARACTERS:
        return CompilerReport(notes=(f"{len(report) >> 20} MiB of assembly, too much to read: generate less code",))
    remarks = _read_remarks(source.split("\n"), report)
    notes = []
    if len(remarks) > _MOST_REMARKS:
        notes.append(f"{len(remarks) - _MOST_REMARKS} more remarks")
        remarks = remarks[:_MOST_REMARKS]
    if platform.machine() != "x86_64":
        notes.append(f"loops of {platform.machine()} code are not read")
        return CompilerReport(remarks=tuple(remarks), notes=tuple(notes))
    loops = sorted(find_loops(report, SOURCE), key=_likely_work, reverse=True)
    if len(loops) > _MOST_LOOPS:
        notes.append(f"{len(loops) - _MOST_LOOPS} more loops, with less arithmetic or fewer loops around them")
    return CompilerReport(remarks=tuple(remarks), loops=tuple(_describe_loops(loops[:_MOST_LOOPS])), notes=tuple(notes))


def _read_remarks(source: Sequence[str], report: str) -> list[Remark]:
    """One a line of the source and outcome at most; vectorised lines first, for they are fewer and surer."""
    said: dict[tuple[int, bool], str] = {}
    for found in _REMARK.finditer(report):
        line, is_vectorized, text = int(found[1]), found[2] == "optimized", found[3].strip()
        if not 1 <= line <= len(source) or _SAYS_NOTHING.search(text):
            continue
        known = said.get((line, is_vectorized))
        if known is None or known == _GENERAL:
            said[line, is_vectorized] = text
        elif len(known) < _MOST_REMARK_CHARACTERS and text not in known and text != _GENERAL:
            said[line, is_vectorized] = f"{known}; {text}"
    return [
        Remark(
            line=line,
            source=_cut(source[line - 1].strip(), _MOST_SOURCE_CHARACTERS),
            is_vectorized=is_vectorized,
            text=_cut(text, _MOST_REMARK_CHARACTERS),
        )
        for (line, is_vectorized), text in sorted(said.items(), key=lambda item: (not item[0][1], item[0][0]))
        # In one of the widths that it tried the compiler misses what it does in another.
        if is_vectorized or (line, True) not in said
    ]


def _describe_loops(loops: Sequence[Loop]) -> list[LoopCode]:
    described = []
    room = _MOST_LINES_OF_ASSEMBLY
    for number, loop in enumerate(loops, start=1):
        others = len(loops) - number
        shown, taken = _listing(loop.instructions, room - _LINES_LEFT_FOR_OTHERS * others)
        room -= len(shown)
        lines = [each.line for each in loop.instructions if each.line is not None]
        vectors = [bits for each in loop.instructions if (bits := _vector_bits(each))]
        described.append(
            LoopCode(
                function=_cut(loop.function, _MOST_NAME_CHARACTERS),
                depth=loop.depth,
                first_line=min(lines, default=None),
                last_line=max(lines, default=None),
                instructions=len(loop.instructions),
                vector_instructions=len(vectors),
                vector_bits=max(vectors, default=0),
                scalar_float_instructions=sum(map(_is_scalar_float, loop.instructions)),
                stack_accesses=sum(_touches_stack(each, loop.has_frame_pointer) for each in loop.instructions),
                calls=tuple(dict.fromkeys(filter(None, map(_callee, loop.instructions))))[:_MOST_CALLS],
                assembly="\n".join(shown),
                left_out=len(loop.instructions) - taken,
            )
        )
    return described


def _listing(instructions: Sequence[Instruction], most_lines: int) -> tuple[list[str], int]:
    """Lines, and how many instructions are among them."""
    jumped_to = {each.text.split()[-1] for each in instructions if each.text.startswith("j")}
    lines: list[str] = []
    source_line: int | None = None
    for taken, each in enumerate(instructions):
        group = [f"{label}:" for label in each.labels if label in jumped_to]
        if each.line is not None and each.line != source_line:
            source_line = each.line
            group.append(f"# line {source_line}")
        if len(lines) + len(group) + 1 > most_lines:
            return lines, taken
        lines += [*group, f"  {each.text}"]
    return lines, len(instructions)


def _likely_work(loop: Loop) -> tuple[int, int]:
    arithmetic = sum(_vector_bits(each) > 0 or _is_scalar_float(each) for each in loop.instructions)
    return arithmetic * _LIKELY_ITERATIONS ** (loop.depth - 1), len(loop.instructions)


def _vector_bits(instruction: Instruction) -> int:
    """Of the widest register of an instruction that works on several elements at once, else 0."""
    name, _, operands = instruction.text.partition(" ")
    bits = max((_BITS[found] for found in _REGISTER.findall(operands)), default=0)
    if bits == 128 and (_SCALAR.fullmatch(name) or (_MOVES.fullmatch(name) and "(" not in operands)):
        return 0  # also a copy or a clearing of a scalar's register
    return 0 if name == "vzeroupper" else bits


def _is_scalar_float(instruction: Instruction) -> bool:
    name, _, operands = instruction.text.partition(" ")
    is_scalar = name.endswith(("ss", "sd")) and _REGISTER.search(operands) is not None
    return is_scalar and "mov" not in name and "broadcast" not in name


def _touches_stack(instruction: Instruction, has_frame_pointer: bool) -> bool:
    base = r"\(%r[sb]p[,)]" if has_frame_pointer else r"\(%rsp[,)]"
    return re.search(base, instruction.text) is not None and not instruction.text.startswith("lea")


def _callee(instruction: Instruction) -> str | None:
    found = _CALL.match(instruction.text)
    if found is None:
        return None
    return "a pointer" if found[1].startswith("*") else _cut(found[1].removesuffix("@PLT"), _MOST_NAME_CHARACTERS)


def _cut(text: str, most_characters: int) -> str:
    return text if len(text) <= most_characters else text[: most_characters - 1] + "…"
