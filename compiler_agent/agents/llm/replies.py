"""What is taken out of a model's reply: one kernel and one line about it. Nothing else in a reply has any effect."""

import re
from dataclasses import dataclass

from candidates.candidate import Candidate, LanguageName
from candidates.language import KernelLanguage
from compiler_agent.agents.duplicates import without_comments
from compiler_agent.agents.llm.quoting import in_one_line

MOST_SOURCE_CHARACTERS = 200_000
MOST_NOTE_CHARACTERS = 300
_FENCE = re.compile(r" {0,3}(?P<fence>`{3,}+|~{3,}+)[ \t]*+(?P<tag>[^\s`]*+)[^`]*")
_CHANGE = re.compile(r"^[ \t*_#>-]*+change[ \t*_]*+:[ \t*_]*+(?P<text>\S.*)$", re.IGNORECASE | re.MULTILINE)
_TAGS = {
    LanguageName.CPP: frozenset({"", "cpp", "c++", "cc", "cxx", "c"}),
    LanguageName.CUDA: frozenset({"", "cuda", "cu", "cpp", "c++"}),
    LanguageName.TRITON: frozenset({"", "python", "py", "triton"}),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    candidate: Candidate
    note: str
    """The line `Change: …` before the code; empty without one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NoKernel:
    problem: str


@dataclass(frozen=True, slots=True, kw_only=True)
class _Block:
    tag: str
    text: str
    begins_at: int
    """Characters of the reply before its fence."""


def read_kernel(language: KernelLanguage, reply: str) -> Kernel | NoKernel:
    """The last whole fenced block in the language that defines its entry."""
    problem = f"no fenced {language.name.value} block"
    for block in reversed(_blocks(reply)):
        if block.tag.lower() not in _TAGS[language.name]:
            continue
        if len(block.text) > MOST_SOURCE_CHARACTERS:
            problem = f"a source of more than {MOST_SOURCE_CHARACTERS} characters"
            continue
        try:
            candidate = language.parse_source(block.text, "kernel")
        except ValueError as error:
            problem = str(error)
            continue
        if not re.search(rf"\b{re.escape(candidate.entry)}\s*\(", without_comments(candidate.source)):
            problem = f"no block defines the entry {candidate.entry}"
            continue
        return Kernel(candidate=candidate, note=_note(reply[: block.begins_at]))
    return NoKernel(problem=in_one_line(problem, MOST_NOTE_CHARACTERS))


def _blocks(reply: str) -> list[_Block]:
    """Fenced blocks as in CommonMark, without those that nothing closes."""
    blocks: list[_Block] = []
    fence = tag = ""
    begins_at = position = 0
    lines: list[str] = []
    for raw in reply.split("\n"):
        line = raw.removesuffix("\r")
        if not fence:
            if found := _FENCE.fullmatch(line):
                fence, tag, begins_at, lines = found["fence"], found["tag"], position, []
        elif (closing := line.strip()) and set(closing) == {fence[0]} and len(closing) >= len(fence):
            text = "\n".join(lines).lstrip("\n")
            blocks.append(_Block(tag=tag, text=f"{text}\n", begins_at=begins_at))
            fence = ""
        else:
            lines.append(line)
        position += len(raw) + 1
    return blocks


def _note(before: str) -> str:
    found = list(_CHANGE.finditer(before))
    return in_one_line(found[-1]["text"], MOST_NOTE_CHARACTERS) if found else ""
