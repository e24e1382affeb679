"""TraceSource: a trace file as numbered lines of text, plain or gzip, told apart by its first bytes.

Whole files only: a pipe cannot be read twice, and a trace is hashed before it is read.
"""

import gzip
import hashlib
import itertools
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from traces.requests import TraceError

GZIP_MAGIC = b"\x1f\x8b"
LONGEST_LINE_BYTES = 16 * 1024 * 1024
HEAD_LINES = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    number: int
    """Counted from 1 over all lines of the file, blank ones too."""
    text: str
    """Without its line end; bytes that are not UTF-8 read as U+FFFD, so that no number can hide among them."""
    is_ended: bool
    """A line end follows; without one somebody may still be writing it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSource:
    path: Path

    def error(self, what: str, next_step: str, line: int | None = None) -> TraceError:
        place = f"{self.path}, line {line}" if line else f"{self.path}"
        return TraceError(f"{place}: {what}: {next_step}")

    def hash_into(self, digest: "hashlib._Hash") -> None:
        """Feeds the file's bytes, as stored, to `digest`."""
        with self._open_raw() as raw:
            while chunk := raw.read(1 << 20):
                digest.update(chunk)

    def head(self) -> Sequence[str]:
        """The first few lines that hold something, for telling formats apart.

        Raises TraceError when the file is empty or not text.
        """
        head = [line.text for line in itertools.islice(self.lines(), HEAD_LINES)]
        if not head:
            raise self.error("empty file", "record some traffic first")
        if "\0" in head[0] or "\N{REPLACEMENT CHARACTER}" in head[0]:
            raise self.error("binary, not text", "give a request trace, as UTF-8 text or gzip of it", line=1)
        return head

    def lines(self) -> Iterator[Line]:
        """Every line that holds something.

        Raises TraceError when the file cannot be read to its end: a half-read trace is other traffic.
        """
        number = 0
        try:
            with self._open_text() as stream:
                while raw := stream.readline(LONGEST_LINE_BYTES):
                    number += 1
                    if len(raw) == LONGEST_LINE_BYTES:
                        raise self.error(
                            f"a line longer than {LONGEST_LINE_BYTES >> 20} MiB", "write one request a line", number
                        )
                    text = raw.decode("utf-8", errors="replace").strip("\r\n\ufeff")
                    if text.strip():
                        yield Line(number=number, text=text, is_ended=raw.endswith(b"\n"))
        except EOFError:
            raise self.error("gzip data ends too early", "fetch the whole file again", number) from None
        except (gzip.BadGzipFile, zlib.error) as error:
            raise self.error(
                f"broken gzip data ({error})", "fetch the file again, or unpack it first", number
            ) from None
        except OSError as error:
            raise self.error(f"cannot be read ({error.strerror or error})", "check the disk", number) from None

    def _open_raw(self) -> IO[bytes]:
        if not self.path.exists():
            raise self.error("no such file", "check the path")
        if not self.path.is_file():
            raise self.error("not a regular file", "give the path of one trace file")
        try:
            return self.path.open("rb")
        except OSError as error:
            raise self.error(f"cannot be opened ({error.strerror})", "check its permissions") from None

    def _open_text(self) -> IO[bytes] | gzip.GzipFile:
        with self._open_raw() as raw:
            magic = raw.read(len(GZIP_MAGIC))
        return gzip.open(self.path, "rb") if magic == GZIP_MAGIC else self._open_raw()
