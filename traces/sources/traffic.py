"""Records of which traffic a night found at its source, and which of it was new."""

from datetime import datetime

from pydantic import Field

from traces.record import TraceRecord


class FileVersion(TraceRecord):
    """What a listing says of a file: while it says the same, the file is the same."""

    size_bytes: int = Field(ge=0)
    modified_at: datetime | None
    etag: str | None = None


class KeptRows(TraceRecord):
    """Rows of one file that were new, where they are kept, and how they are known again.

    The digest of a row is that of all rows up to it, from the file's beginning on.
    """

    trace: str
    """sha256 of the trace that they are kept in."""
    begin_byte: int = Field(ge=0)
    end_byte: int = Field(ge=0)
    before: str
    """Digest of the row before them, or of the header."""
    first: str
    last: str


class SeenFile(TraceRecord):
    name: str
    """Relative to the source."""
    version: FileVersion
    sha256: str
    """Of its bytes as they were read."""
    rows_before: int = Field(ge=0)
    """At its beginning, that were seen before, under this name or another."""
    rows: int = Field(ge=0)
    """New ones behind those; a last line that somebody may still be writing is none."""
    requests: int = Field(ge=0)
    """Of the new rows; the others are dropped."""
    dropped: dict[str, int] = Field(default_factory=dict)
    """By reason."""
    earliest_s: float | None = None
    """Arrivals of the new requests, on the file's own clock."""
    latest_s: float | None = None
    kept: KeptRows | None = None
    """None: nothing was new."""


class LeftOut(TraceRecord):
    """A file that could not be read; it is tried again every night."""

    name: str
    reason: str


class SeenTraffic(TraceRecord):
    """What was at the source, newest last."""

    files: tuple[SeenFile, ...] = ()
    """Those that were read."""
    left_out: tuple[LeftOut, ...] = ()
    unchanged: int = Field(ge=0, default=0)
    """Files that are as they were when they were last read."""
    too_old: int = Field(ge=0, default=0)
    """Files that were last written before the time that the schedule looks back to."""

    @property
    def requests(self) -> int:
        return sum(file.requests for file in self.files)
