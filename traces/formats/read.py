"""read_trace: trace files of any known format to one RequestTrace in memory, sorted by arrival.

Each file's clock starts at its earliest kept request, so files recorded at different times overlap when merged.
"""

import hashlib
import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from traces.formats.azure_llm import AzureLlmFormat
from traces.formats.format import DroppedRow, TraceFormat
from traces.formats.mooncake import MooncakeFormat
from traces.formats.project import ProjectFormat
from traces.formats.source import TraceSource
from traces.requests import ReadCounts, RequestTrace, TracedRequest, TraceError

FORMATS: tuple[TraceFormat, ...] = (
    ProjectFormat(),
    MooncakeFormat(),
    AzureLlmFormat(),
)


def read_trace(paths: Sequence[Path], format: str | None = None, workload_class: str | None = None) -> RequestTrace:
    """Reads and merges the files by arrival, the order of `paths` breaking ties.

    `format` names one of FORMATS for all files; None recognises each by its content. `workload_class` goes to every
    request; None leaves what its row says, else the name of its file without endings.

    Raises TraceError when a file is missing, unreadable, of no known format, or has no usable row, and when the files
    disagree about the size of a prefix block.
    """
    if not paths:
        raise TraceError("no trace file given: name at least one")
    files = [_read_file(TraceSource(path=path), format, workload_class) for path in paths]
    if len(files) == 1:
        return files[0]
    return _merge(files, paths)


def _read_file(source: TraceSource, name: str | None, workload_class: str | None) -> RequestTrace:
    digest = hashlib.sha256()
    source.hash_into(digest)
    trace_format = choose_format(source, name)
    default_class = workload_class or source.path.name.split(".")[0]
    stream = trace_format.read(source, default_class)
    counts, requests = read_rows(stream.rows, workload_class)
    if not requests:
        reasons = ", ".join(f"{reason} {count}" for reason, count in sorted(counts.dropped.items())) or "none there"
        raise source.error(
            f"no usable request among {counts.read} rows ({reasons})", f"is it really a {trace_format.name} trace?"
        )
    return RequestTrace(
        requests=_from_zero(requests),
        counts=counts,
        format=trace_format.name,
        block_tokens=stream.block_tokens,
        digest=digest.hexdigest(),
    )


def read_rows(
    rows: Iterable[TracedRequest | DroppedRow], workload_class: str | None = None
) -> tuple[ReadCounts, list[TracedRequest]]:
    """In file order, on the file's own clock; `workload_class` as for `read_trace`."""
    counts = ReadCounts()
    requests: list[TracedRequest] = []
    for row in rows:
        counts.read += 1
        if isinstance(row, DroppedRow):
            counts.drop(row.reason)
            continue
        counts.kept += 1
        if workload_class is not None and row.workload_class != workload_class:
            row = replace(row, workload_class=workload_class)
        requests.append(row)
    return counts, requests


def choose_format(source: TraceSource, name: str | None) -> TraceFormat:
    """Of FORMATS, by name or by the file's first lines. Raises TraceError."""
    known = ", ".join(known_format.name for known_format in FORMATS)
    if name is not None:
        for known_format in FORMATS:
            if known_format.name == name:
                source.head()
                return known_format
        raise source.error(f"unknown format {name!r}", f"known are {known}")
    head = source.head()
    fitting = [known_format for known_format in FORMATS if known_format.recognises(head)]
    if not fitting:
        raise source.error("unknown format", f"known are {known}; name one of them if the file's first rows are bad", 1)
    if len(fitting) > 1:
        names = ", ".join(fitting_format.name for fitting_format in fitting)
        raise source.error(f"may be any of {names}", "name the format", 1)
    return fitting[0]


def _from_zero(requests: list[TracedRequest]) -> list[TracedRequest]:
    start_s = min(request.arrival_s for request in requests)
    if start_s != 0:
        requests = [replace(request, arrival_s=request.arrival_s - start_s) for request in requests]
    return sorted(requests, key=lambda request: request.arrival_s)


def _merge(files: Sequence[RequestTrace], paths: Sequence[Path]) -> RequestTrace:
    sizes = sorted({file.block_tokens for file in files if file.block_tokens is not None})
    if len(sizes) > 1:
        names = ", ".join(f"{path} ({file.block_tokens})" for path, file in zip(paths, files, strict=True))
        raise TraceError(f"prefix blocks of different sizes: {names}: replay these files one by one")
    counts = ReadCounts()
    for file in files:
        counts.read += file.counts.read
        counts.kept += file.counts.kept
        for reason, count in file.counts.dropped.items():
            counts.dropped[reason] = counts.dropped.get(reason, 0) + count
    return RequestTrace(
        requests=sorted(_with_own_names(files), key=lambda request: request.arrival_s),
        counts=counts,
        format="+".join(dict.fromkeys(file.format for file in files)),
        block_tokens=sizes[0] if sizes else None,
        digest=hashlib.sha256("".join(file.digest for file in files).encode()).hexdigest(),
    )


def _with_own_names(files: Sequence[RequestTrace]) -> Iterable[TracedRequest]:
    """Every request with block ids and session of its file alone: an equal number in two files is chance."""
    fresh_ids = itertools.count()
    for index, file in enumerate(files):
        renamed: dict[int, int] = {}
        for request in file.requests:
            for block in request.prefix_blocks:
                if block not in renamed:
                    renamed[block] = next(fresh_ids)
            yield replace(
                request,
                prefix_blocks=tuple(renamed[block] for block in request.prefix_blocks),
                session=None if request.session is None else f"{index}/{request.session}",
            )
