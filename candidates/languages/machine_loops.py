"""Loops in the assembly that GCC writes for x86-64 (AT&T syntax).

A loop is what a jump back to a dominator of its block closes (Aho, Sethi, Ullman: natural loops); a cycle with two
entries is none. Where a computed jump goes is not known: what only such jumps reach counts as entered from outside.
"""

import itertools
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

_LOCATION = re.compile(r"\t\.loc (\d{1,9}) (\d{1,9})")
_FILE = re.compile(r'\t\.file (\d+) (?:".*" )?"([^"]*)"')
_LABEL = re.compile(r"([.\w$]+):")
_JUMP = re.compile(r"(?:notrack )?(j\w+)\s+(\S+)")
MOST_BLOCKS = 4000
"""A function of more is not searched: the time grows with their square."""
_ENDS = ("ret", "rep ret", "ud2", "hlt")


@dataclass(frozen=True, slots=True, kw_only=True)
class Instruction:
    text: str
    """`vmulps %ymm0, %ymm1, %ymm1`."""
    line: int | None
    """Of the source file; where code of a header was put in, the line before it."""
    labels: tuple[str, ...]
    """That stand before it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Loop:
    function: str
    depth: int
    """1: in no other loop of its function."""
    instructions: tuple[Instruction, ...]
    """Its own, without those of loops inside it, in the order of the listing; parts of it follow each other."""
    has_frame_pointer: bool
    """`%rbp` points to the function's stack."""


@dataclass(slots=True, kw_only=True)
class _Function:
    name: str
    instructions: list[Instruction] = field(default_factory=list)


def find_loops(assembly: str, source: str) -> list[Loop]:
    """In the order of the listing; none of a function with more than MOST_BLOCKS blocks. `source` is the file whose
    line numbers count."""
    return [loop for function in _read_functions(assembly, source) for loop in _loops_of(function)]


def _read_functions(assembly: str, source: str) -> list[_Function]:
    functions: list[_Function] = []
    own_files: set[str] = set()
    line: int | None = None
    labels: list[str] = []
    for text in assembly.split("\n"):
        if found := _LABEL.match(text):
            if found[1].startswith(".L"):
                labels.append(found[1])
            else:
                functions.append(_Function(name=found[1]))
                line, labels = None, []
        elif found := _LOCATION.match(text):
            line = int(found[2]) or line if found[1] in own_files else line
        elif found := _FILE.match(text):
            if found[2] == source:
                own_files.add(found[1])
        elif text.startswith("\t") and text[1:2] not in (".", "#", "") and functions:
            functions[-1].instructions.append(Instruction(text=" ".join(text.split()), line=line, labels=tuple(labels)))
            labels = []
    return functions


def _loops_of(function: _Function) -> Iterator[Loop]:
    code = function.instructions
    starts = _block_starts(code)
    if len(starts) > MOST_BLOCKS:
        return
    ranges = [range(a, b) for a, b in itertools.pairwise([*starts, len(code)])]
    successors = _successors(code, ranges)
    bodies = _natural_loops(successors)
    has_frame_pointer = any(each.text == "movq %rsp, %rbp" for each in code)
    # Natural loops lie within each other or apart: the smallest around a block is the one that it belongs to.
    innermost: dict[int, int] = {}
    depth = Counter[int]()
    for header in sorted(bodies, key=lambda each: len(bodies[each])):
        depth.update(bodies[header])
        for block in bodies[header]:
            innermost.setdefault(block, header)
    for header, body in sorted(bodies.items()):
        yield Loop(
            function=function.name,
            depth=depth[header],
            instructions=tuple(
                code[at] for block in sorted(body) if innermost[block] == header for at in ranges[block]
            ),
            has_frame_pointer=has_frame_pointer,
        )


def _block_starts(code: Sequence[Instruction]) -> list[int]:
    """A block starts at a label and after whatever may go elsewhere."""
    return [
        at
        for at, each in enumerate(code)
        if at == 0 or each.labels or _JUMP.match(code[at - 1].text) or code[at - 1].text.startswith(_ENDS)
    ]


def _successors(code: Sequence[Instruction], ranges: Sequence[range]) -> list[list[int]]:
    at_label = {label: block for block, inside in enumerate(ranges) for label in code[inside[0]].labels}
    successors: list[list[int]] = []
    for block, inside in enumerate(ranges):
        last = code[inside[-1]].text
        jump = _JUMP.match(last)
        following = [] if (jump and jump[1] == "jmp") or last.startswith(_ENDS) else [block + 1]
        if jump and jump[2] in at_label:
            following.append(at_label[jump[2]])
        successors.append([each for each in following if each < len(ranges)])
    return successors


def _natural_loops(successors: Sequence[Sequence[int]]) -> dict[int, set[int]]:
    """Bodies by header."""
    predecessors: list[list[int]] = [[] for _ in successors]
    for block, following in enumerate(successors):
        for each in following:
            predecessors[each].append(block)
    dominators = _immediate_dominators(successors, predecessors)
    loops: dict[int, set[int]] = {}
    for block, following in enumerate(successors):
        for header in following:
            if _dominates(header, block, dominators):
                body = loops.setdefault(header, {header})
                waiting = [block]
                while waiting:
                    if (each := waiting.pop()) not in body:
                        body.add(each)
                        waiting += predecessors[each]
    return loops


_OUTSIDE = -1


def _immediate_dominators(successors: Sequence[Sequence[int]], predecessors: Sequence[Sequence[int]]) -> dict[int, int]:
    """Of every block that is reached; by Cooper, Harvey and Kennedy, "A Simple, Fast Dominance Algorithm" (2001)."""
    entries = [block for block, before in enumerate(predecessors) if block == 0 or not before]
    order = _reverse_postorder(entries, successors)
    rank = {block: at for at, block in enumerate([_OUTSIDE, *order])}
    dominators = {_OUTSIDE: _OUTSIDE}

    def meet(a: int, b: int) -> int:
        while a != b:
            while rank[a] > rank[b]:
                a = dominators[a]
            while rank[b] > rank[a]:
                b = dominators[b]
        return a

    has_changed = True
    while has_changed:
        has_changed = False
        for block in order:
            known = [each for each in predecessors[block] if each in dominators]
            new = _OUTSIDE if block in entries else known[0]
            for each in known:
                new = meet(new, each)
            if dominators.get(block) != new:
                dominators[block], has_changed = new, True
    return dominators


def _reverse_postorder(entries: Sequence[int], successors: Sequence[Sequence[int]]) -> list[int]:
    seen: set[int] = set()
    order: list[int] = []
    for entry in entries:
        waiting = [(entry, iter(successors[entry]))] if entry not in seen else []
        seen.add(entry)
        while waiting:
            block, following = waiting[-1]
            for each in following:
                if each not in seen:
                    seen.add(each)
                    waiting.append((each, iter(successors[each])))
                    break
            else:
                order.append(block)
                waiting.pop()
    return order[::-1]


def _dominates(header: int, block: int, dominators: dict[int, int]) -> bool:
    while block not in (header, _OUTSIDE):
        block = dominators.get(block, _OUTSIDE)
    return block == header
