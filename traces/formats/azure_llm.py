"""Azure LLM inference traces of 2023 and 2024: CSV of arrival and lengths, no prefix identity.

Source: Azure/AzurePublicDataset, AzureLLMInferenceDataset2023.md. Timestamps count 100 ns in seven digits, which
`datetime` would cut to six; a zone may follow them. Without one they are read as UTC: only differences matter.
"""

import contextlib
import csv
import re
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from traces.formats.fields import UnusableRow, token_count
from traces.formats.format import DroppedRow, TraceRows
from traces.formats.source import Line, TraceSource
from traces.requests import TracedRequest

ARRIVAL, PROMPT, OUTPUT = "TIMESTAMP", "ContextTokens", "GeneratedTokens"
TIMESTAMP = re.compile(
    r"(?P<second>\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d)(?:\.(?P<fraction>\d{1,9}))?(?P<zone>Z|[+-]\d\d:?\d\d)?", re.ASCII
)
COUNT = re.compile(r"-?\d{1,18}", re.ASCII)


class AzureLlmFormat:
    name = "azure_llm"
    header_lines = 1

    def recognises(self, head: Sequence[str]) -> bool:
        with contextlib.suppress(csv.Error):
            return {ARRIVAL, PROMPT, OUTPUT} <= set(_cells(head[0]))
        return False

    def read(self, source: TraceSource, workload_class: str) -> TraceRows:
        lines = source.lines()
        header = next(lines, None)
        try:
            columns = _cells(header.text) if header else []
        except csv.Error as error:
            raise source.error(f"no CSV ({error})", f"the first line must be {ARRIVAL},{PROMPT},{OUTPUT}", 1) from None
        missing = {ARRIVAL, PROMPT, OUTPUT} - set(columns)
        if missing:
            raise source.error(
                f"no column {', '.join(sorted(missing))}", f"the first line must be {ARRIVAL},{PROMPT},{OUTPUT}", 1
            )
        return TraceRows(block_tokens=None, rows=_read_rows(lines, columns, workload_class))


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in next(csv.reader([text]), [])]


class _Clock:
    """Seconds since the first row's whole second: a float of seconds since 1970 could not hold 100 ns."""

    def __init__(self) -> None:
        self._origin: datetime | None = None

    def read(self, text: str) -> float:
        match = TIMESTAMP.fullmatch(text)
        if match is None:
            raise UnusableRow(f"missing_{ARRIVAL}" if not text else f"bad_{ARRIVAL}")
        try:
            moment = datetime.fromisoformat(match["second"] + (match["zone"] or "Z"))
        except ValueError:
            raise UnusableRow(f"bad_{ARRIVAL}") from None
        if self._origin is None:
            self._origin = moment
        return (moment - self._origin) / timedelta(seconds=1) + float(f"0.{match['fraction'] or 0}")


def _read_rows(lines: Iterator[Line], columns: list[str], workload_class: str) -> Iterator[TracedRequest | DroppedRow]:
    clock = _Clock()
    for line in lines:
        try:
            yield _parse_row(line, columns, clock, workload_class)
        except UnusableRow as unusable:
            yield DroppedRow(reason=unusable.reason)


def _parse_row(line: Line, columns: list[str], clock: _Clock, workload_class: str) -> TracedRequest:
    try:
        cells = _cells(line.text)
    except csv.Error:
        raise UnusableRow("bad_csv") from None
    if len(cells) != len(columns):
        raise UnusableRow("wrong_number_of_columns")
    row = dict(zip(columns, cells, strict=True))
    return TracedRequest(
        arrival_s=clock.read(row[ARRIVAL]),
        prompt_tokens=_count(row[PROMPT], PROMPT),
        output_tokens=_count(row[OUTPUT], OUTPUT),
        workload_class=workload_class,
    )


def _count(text: str, name: str) -> int:
    if not text:
        raise UnusableRow(f"missing_{name}")
    if not COUNT.fullmatch(text):
        raise UnusableRow(f"not_an_integer_{name}")
    return token_count(int(text), name)
