"""SeenRows: how much of a file's beginning was seen before, whatever the file was called then.

A file is known by its content alone: rows are known again by the digest of everything up to them. So a log that was
rotated, renamed, compressed, copied or cut off shows exactly the rows that it never showed before. Where the kept rows
of a night are gone, what is known of that night is its end: of a file that was cut off before it, the rows of that
night are taken for new.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence

from traces.sources.traffic import KeptRows

ReadKept = Callable[[KeptRows], Iterator[str] | None]
"""The rows; None where they are gone."""


class SeenRows:
    def __init__(self, kept: Iterable[KeptRows], read_kept: ReadKept) -> None:
        self._read_kept = read_kept
        self._ends: set[str] = set()
        self._by_beginning: dict[tuple[str, str], list[KeptRows]] = {}
        for rows in kept:
            self.add(rows)

    def add(self, rows: KeptRows) -> None:
        self._ends.add(rows.last)
        self._by_beginning.setdefault((rows.before, rows.first), []).append(rows)

    def is_end(self, digest: str) -> bool:
        return digest in self._ends

    def beginning(self, before: str, first: str) -> Iterator[Iterator[str]]:
        """Seen rows that came right after `before`; of each those behind its first."""
        for kept in self._by_beginning.get((before, first), ()):
            rows = self._read_kept(kept)
            if rows is not None:
                next(rows)
                yield rows


class RowWalk:
    """Goes through the rows of one file."""

    def __init__(self, seen: SeenRows, header: Sequence[str]) -> None:
        self._seen = seen
        self._beside: list[Iterator[str]] = []
        self.digest = hashlib.sha256("\n".join(header).encode()).hexdigest()
        """Of all rows so far."""
        self.rows = 0

    def step(self, row: str) -> bool:
        """Whether all rows up to this one were seen before, as far as is known: a later row may show that they were."""
        before, self.digest = self.digest, hashlib.sha256(f"{self.digest}{row}".encode()).hexdigest()
        self.rows += 1
        self._beside = [rows for rows in self._beside if next(rows, None) == row]
        self._beside.extend(self._seen.beginning(before, self.digest))
        return bool(self._beside) or self._seen.is_end(self.digest)
