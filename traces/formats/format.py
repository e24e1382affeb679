"""TraceFormat: how one recorded format of request traffic becomes TracedRequests.

To add a format: one file here, one line in `read.FORMATS`, one subclass of `TraceFormatContract` in the tests.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from traces.formats.source import TraceSource
from traces.requests import TracedRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class DroppedRow:
    """A row that is no usable request; the file is still good."""

    reason: str
    """A stable snake_case word that rows are counted by: `zero_output_tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows:
    block_tokens: int | None
    """Tokens a prefix block holds; None where the format has no prefix identity."""
    rows: Iterator[TracedRequest | DroppedRow]
    """One element for each row of the file, in file order, read as it is asked for."""


class TraceFormat(Protocol):
    @property
    def name(self) -> str:
        """What a user types for `format`."""
        ...

    @property
    def header_lines(self) -> int:
        """Lines at a file's beginning that say how to read its rows: rows of the middle need them before them."""
        ...

    def recognises(self, head: Sequence[str]) -> bool:
        """Whether these first lines can only be of this format. At least one line, blank ones left out."""
        ...

    def read(self, source: TraceSource, workload_class: str) -> TraceRows:
        """The file's rows, in seconds on the file's own clock; `workload_class` is for rows that do not say theirs.

        Raises TraceError, also while rows are read, when the file as a whole cannot be trusted: its header is
        missing, or a prompt is longer than its prefix blocks.
        """
        ...
