"""compare_sources: two texts line by line, unchanged stretches folded, in bounded time whatever the texts.

Long texts are cut before they are compared. Where too many lines are alike to be paired in time (difflib tries each
with each), all of one side is shown as replaced by all of the other.
"""

import difflib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from leaderboard.highlight import cut_lines
from leaderboard.written_bytes import written_bytes

MOST_CHARACTERS = 60_000
MOST_LINES = 1_200
MOST_LINE_CHARACTERS = 400
MOST_ROWS = 700
MOST_SHOWN_BYTES = 130_000
"""Of the text in all rows, as it is written in HTML."""
_CONTEXT = 3
_MOST_PAIRS = 100_000
"""Of equal lines, one in each text."""
_BYTES_BESIDE = 40


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    number: int
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Both: unchanged or changed; one of them alone: removed (left) or added (right)."""

    kind: Literal["same", "changed"]
    left: Side | None
    right: Side | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Fold:
    kind: Literal["folded"]
    lines: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Difference:
    rows: tuple[Row | Fold, ...]
    removed: int
    added: int
    is_cut: bool
    """Longer than is compared or shown."""
    is_paired: bool
    """False: too much alike within each text to pair lines."""


def compare_sources(left: str, right: str) -> Difference:
    mine, others = _lines(left), _lines(right)
    opcodes, is_paired = _opcodes(mine.kept, others.kept)
    rows, is_whole = _take(_rows(mine.kept, others.kept, opcodes))
    return Difference(
        rows=rows,
        removed=sum(high - low for tag, low, high, _, _ in opcodes if tag != "equal"),
        added=sum(high - low for tag, _, _, low, high in opcodes if tag != "equal"),
        is_cut=mine.is_cut or others.is_cut or not is_whole,
        is_paired=is_paired,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Lines:
    kept: Sequence[str]
    is_cut: bool


def _lines(text: str) -> _Lines:
    shown = cut_lines(text, MOST_CHARACTERS, MOST_LINES)
    # By newlines alone, as line numbers elsewhere count them.
    whole = shown.removesuffix("\n").split("\n")
    kept = [line[:MOST_LINE_CHARACTERS] for line in whole]
    return _Lines(kept=kept, is_cut=len(shown) < len(text) or kept != whole)


_Opcode = tuple[str, int, int, int, int]


def _opcodes(left: Sequence[str], right: Sequence[str]) -> tuple[list[_Opcode], bool]:
    head = next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))
    rest = min(len(left), len(right)) - head
    tail = next((at for at in range(rest) if left[-1 - at] != right[-1 - at]), rest)
    mine, others = left[head : len(left) - tail], right[head : len(right) - tail]
    counts = Counter(others)
    is_paired = sum(counts[line] for line in mine) <= _MOST_PAIRS
    middle: list[_Opcode] = []
    if is_paired:
        matcher = difflib.SequenceMatcher(None, mine, others, autojunk=True)
        middle = [
            (tag, head + a_low, head + a_high, head + b_low, head + b_high)
            for tag, a_low, a_high, b_low, b_high in matcher.get_opcodes()
        ]
    elif mine or others:
        middle = [("replace", head, head + len(mine), head, head + len(others))]
    before: list[_Opcode] = [("equal", 0, head, 0, head)] if head else []
    after: list[_Opcode] = [("equal", len(left) - tail, len(left), len(right) - tail, len(right))] if tail else []
    return [*before, *middle, *after], is_paired


def _rows(left: Sequence[str], right: Sequence[str], opcodes: Sequence[_Opcode]) -> Iterator[Row | Fold]:
    for index, (tag, a_low, a_high, b_low, b_high) in enumerate(opcodes):
        if tag != "equal":
            for at in range(max(a_high - a_low, b_high - b_low)):
                yield Row(
                    kind="changed",
                    left=Side(number=a_low + at + 1, text=left[a_low + at]) if a_low + at < a_high else None,
                    right=Side(number=b_low + at + 1, text=right[b_low + at]) if b_low + at < b_high else None,
                )
            continue
        count = a_high - a_low
        first = 0 if index == 0 else _CONTEXT
        last = 0 if index == len(opcodes) - 1 else _CONTEXT
        is_folded = count > first + last + 1
        for at in range(count):
            if not is_folded or at < first or at >= count - last:
                yield Row(
                    kind="same",
                    left=Side(number=a_low + at + 1, text=left[a_low + at]),
                    right=Side(number=b_low + at + 1, text=right[b_low + at]),
                )
            elif at == first:
                yield Fold(kind="folded", lines=count - first - last)


def _take(rows: Iterator[Row | Fold]) -> tuple[tuple[Row | Fold, ...], bool]:
    """The first ones that there is room for, and whether these are all."""
    kept: list[Row | Fold] = []
    room = MOST_SHOWN_BYTES
    for row in rows:
        room -= _shown_bytes(row)
        if room < 0 or len(kept) == MOST_ROWS:
            return tuple(kept), False
        kept.append(row)
    return tuple(kept), True


def _shown_bytes(row: Row | Fold) -> int:
    if isinstance(row, Fold):
        return _BYTES_BESIDE
    return _BYTES_BESIDE + sum(written_bytes(side.text) for side in (row.left, row.right) if side is not None)
