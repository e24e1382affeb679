"""find_new_rows: what a source has that was not seen before, as one trace for each format and header.

Files of a source are parts of one recording: they share a clock and the numbers of prefix blocks, so their rows become
one trace. Replicas with clocks or numbers of their own need a source each.

A last line without its end is left for another night, unless it is a whole JSON object already. An archive that ends
too early is left as a whole.
"""

import contextlib
import hashlib
import itertools
import json
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import IO

from traces.formats.format import TraceFormat
from traces.formats.read import choose_format, read_rows
from traces.formats.source import Line, TraceSource
from traces.requests import TraceError
from traces.sources.seen import RowWalk, SeenRows
from traces.sources.source import SourceFile, SourceUnavailable, TrafficSource
from traces.sources.traffic import FileVersion, KeptRows, LeftOut, SeenFile, SeenTraffic


@dataclass(slots=True, kw_only=True)
class _Part:
    """New rows of one format and header."""

    path: Path
    files: list[int] = field(default_factory=list)
    """Which of the night's files."""


@dataclass(slots=True, kw_only=True)
class NewRows:
    """Lies in a folder that the caller removes; `keep_in` moves what is to stay."""

    label: str
    traffic: SeenTraffic
    _parts: Sequence[_Part]

    def keep_in(self, folder: Path) -> tuple[SeenTraffic, tuple[Path, ...]]:
        """Moves the traces to `folder`/<sha256>/<label>.trace; the record then says so."""
        files, paths = list(self.traffic.files), []
        for part in self._parts:
            with part.path.open("rb") as content:
                digest = hashlib.file_digest(content, "sha256").hexdigest()
            path = kept_trace(folder, digest, self.label)
            path.parent.mkdir(parents=True, exist_ok=True)
            part.path.replace(path)
            paths.append(path)
            for index in part.files:
                kept = files[index].kept
                assert kept is not None
                files[index] = files[index].model_copy(update={"kept": kept.model_copy(update={"trace": digest})})
        return self.traffic.model_copy(update={"files": tuple(files)}), tuple(paths)


def kept_trace(folder: Path, digest: str, label: str) -> Path:
    return folder / digest / f"{label}.trace"


def read_kept_rows(path: Path, kept: KeptRows) -> Iterator[str] | None:
    """Rows of a kept trace; None where it is gone."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return None
    file.seek(kept.begin_byte)
    return _rows(file, kept.end_byte)


def _rows(file: IO[bytes], end_byte: int) -> Iterator[str]:
    with file:
        while file.tell() < end_byte:
            yield file.readline().decode().removesuffix("\n")


def find_new_rows(
    source: TrafficSource,
    known: Sequence[SeenFile],
    kept_in: Path,
    incoming: Path,
    trace_format: str | None = None,
    not_before: datetime | None = None,
) -> NewRows:
    """`known`: what earlier nights read, oldest first; their traces are under `kept_in`. `incoming`: an empty folder.

    Files that were last written before `not_before` are passed over.

    Raises SourceUnavailable where the source cannot be listed. A file that cannot be read is left out.
    """
    return _Finder(source, known, kept_in, incoming, trace_format).find(not_before)


class _Finder:
    def __init__(
        self,
        source: TrafficSource,
        known: Sequence[SeenFile],
        kept_in: Path,
        incoming: Path,
        trace_format: str | None,
    ) -> None:
        self._source, self._kept_in, self._incoming, self._format = source, kept_in, incoming, trace_format
        self._versions: Mapping[str, FileVersion] = {file.name: file.version for file in known}
        self._rows_of = {file.sha256: file.rows_before + file.rows for file in known}
        self._seen = SeenRows((file.kept for file in known if file.kept is not None), self._read_kept)
        self._parts: dict[tuple[str, tuple[str, ...]], _Part] = {}
        self._files: list[SeenFile] = []

    def find(self, not_before: datetime | None) -> NewRows:
        left_out, unchanged, too_old = [], 0, 0
        for listed in self._source.list_files():
            if not listed.version.size_bytes:
                continue
            if self._versions.get(listed.name) == listed.version:
                unchanged += 1
                continue
            if not_before is not None and (listed.version.modified_at or not_before) < not_before:
                too_old += 1
                continue
            try:
                self._read(listed)
            except (SourceUnavailable, TraceError) as error:
                # Readers name the path of our copy, which nobody knows.
                left_out.append(LeftOut(name=listed.name, reason=str(error).replace(f"{self._incoming}/", "")))
        traffic = SeenTraffic(files=tuple(self._files), left_out=tuple(left_out), unchanged=unchanged, too_old=too_old)
        return NewRows(label=self._source.label, traffic=traffic, _parts=tuple(self._parts.values()))

    def _read_kept(self, kept: KeptRows) -> Iterator[str] | None:
        # Of this night's own parts the digest is not known yet, and their path stands for it.
        own = self._incoming / kept.trace
        path = own if own.exists() else kept_trace(self._kept_in, kept.trace, self._source.label)
        return read_kept_rows(path, kept)

    def _read(self, listed: SourceFile) -> None:
        snapshot = TraceSource(path=self._incoming / "file")
        sha256 = _copy(self._source.read(listed.name), snapshot.path)
        if (rows := self._rows_of.get(sha256)) is not None:  # renamed: its rows need no look
            self._files.append(_seen(listed, sha256, rows_before=rows, rows=0))
            return
        trace_format = choose_format(snapshot, self._format)
        lines = _whole_lines(snapshot)
        header = tuple(line.text for line in itertools.islice(lines, trace_format.header_lines))
        walk, rows_before = RowWalk(self._seen, header), 0
        before = first = walk.digest
        new = self._incoming / "new rows"
        with new.open("wb") as file:
            file.writelines(f"{text}\n".encode() for text in header)
            header_bytes = file.tell()
            for line in lines:
                if walk.step(line.text):
                    rows_before, before = walk.rows, walk.digest
                    file.seek(header_bytes)
                    file.truncate()
                    continue
                if walk.rows == rows_before + 1:
                    first = walk.digest
                file.write(f"{line.text}\n".encode())
        seen = _seen(listed, sha256, rows_before=rows_before, rows=walk.rows - rows_before)
        if seen.rows:
            seen = self._take(seen, trace_format, header, header_bytes, new, (before, first, walk.digest))
        self._files.append(seen)

    def _take(
        self,
        seen: SeenFile,
        trace_format: TraceFormat,
        header: tuple[str, ...],
        header_bytes: int,
        new: Path,
        digests: tuple[str, str, str],
    ) -> SeenFile:
        """Reads the new rows as a trace and adds them to their part. Raises TraceError, and then adds nothing."""
        counts, requests = read_rows(trace_format.read(TraceSource(path=new), self._source.label).rows)
        part = self._parts.setdefault(
            (trace_format.name, header), _Part(path=self._incoming / f"part-{len(self._parts)}")
        )
        with new.open("rb") as rows, part.path.open("ab") as whole:
            if whole.tell():
                rows.seek(header_bytes)
                begin = whole.tell()
            else:
                begin = header_bytes
            shutil.copyfileobj(rows, whole)
            end = whole.tell()
        before, first, last = digests
        kept = KeptRows(trace=part.path.name, begin_byte=begin, end_byte=end, before=before, first=first, last=last)
        self._seen.add(kept)
        part.files.append(len(self._files))
        arrivals = [request.arrival_s for request in requests]
        return seen.model_copy(
            update={
                "requests": counts.kept,
                "dropped": counts.dropped,
                "earliest_s": min(arrivals, default=None),
                "latest_s": max(arrivals, default=None),
                "kept": kept,
            }
        )


def _seen(listed: SourceFile, sha256: str, *, rows_before: int, rows: int) -> SeenFile:
    return SeenFile(
        name=listed.name, version=listed.version, sha256=sha256, rows_before=rows_before, rows=rows, requests=0
    )


def _copy(pieces: Iterator[bytes], path: Path) -> str:
    """sha256 of what was copied."""
    digest = hashlib.sha256()
    with path.open("wb") as file:
        for piece in pieces:
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _whole_lines(source: TraceSource) -> Iterator[Line]:
    for line in source.lines():
        if line.is_ended or _is_json_object(line.text):
            yield line


def _is_json_object(text: str) -> bool:
    """Nothing that is appended to one makes another."""
    with contextlib.suppress(ValueError, RecursionError):
        return isinstance(json.loads(text), dict)
    return False
