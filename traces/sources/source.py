"""TrafficSource: the files that a production server writes its requests to."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from traces.sources.traffic import FileVersion


class SourceUnavailable(Exception):
    """Files cannot be listed or read now; another time they may be. The message says which and why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceFile:
    name: str
    """Relative to the source; unique in a listing."""
    version: FileVersion


class TrafficSource(Protocol):
    @property
    def label(self) -> str:
        """One word for its traffic: the name of its file or folder."""
        ...

    def list_files(self) -> Sequence[SourceFile]:
        """What is there now, oldest first. Raises SourceUnavailable."""
        ...

    def read(self, name: str) -> Iterator[bytes]:
        """The bytes of a listed file as stored, in pieces. Raises SourceUnavailable, also while it is read, and when
        the file has gone since it was listed."""
        ...
