"""The project's own request traces: JSONL of a header, then one request a row. It says everything that replay uses.

Header: `{"format": "compiler-agent-requests", "version": 1, "block_tokens": 64}`; `block_tokens` is null or left out
where prefixes are unknown. Row: `arrival_s`, `prompt_tokens`, `output_tokens`, and if known `workload_class`,
`session`, and `prefix_blocks`, the ids of the prompt's *whole* blocks (its partial tail can never be reused).
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from traces.formats.blocks import PrefixIdentity
from traces.formats.fields import (
    UnusableRow,
    optional_text,
    parse_json_object,
    required,
    time_in_units,
    token_count,
)
from traces.formats.format import DroppedRow, TraceRows
from traces.formats.source import Line, TraceSource
from traces.requests import TracedRequest

FORMAT = "compiler-agent-requests"
VERSION = 1


class ProjectFormat:
    name = "project"
    header_lines = 1

    def recognises(self, head: Sequence[str]) -> bool:
        try:
            return parse_json_object(head[0]).get("format") == FORMAT
        except UnusableRow:
            return False

    def read(self, source: TraceSource, workload_class: str) -> TraceRows:
        lines = source.lines()
        block_tokens = _read_header(source, next(lines, None))
        return TraceRows(block_tokens=block_tokens, rows=_read_rows(source, lines, block_tokens, workload_class))


def write_rows(requests: Iterable[TracedRequest], block_tokens: int | None) -> Iterator[str]:
    """The lines of a trace in this format, without line ends. `prefix_blocks` must follow the whole-block rule."""
    yield _dump({"format": FORMAT, "version": VERSION, "block_tokens": block_tokens})
    for request in requests:
        row: dict[str, Any] = {
            "arrival_s": request.arrival_s,
            "prompt_tokens": request.prompt_tokens,
            "output_tokens": request.output_tokens,
            "workload_class": request.workload_class,
        }
        if request.session is not None:
            row["session"] = request.session
        if block_tokens is not None:
            row["prefix_blocks"] = request.prefix_blocks
        yield _dump(row)


def _dump(row: dict[str, Any]) -> str:
    return json.dumps(row, separators=(",", ":"), allow_nan=False)


def _read_header(source: TraceSource, line: Line | None) -> int | None:
    try:
        header = parse_json_object(line.text if line else "")
    except UnusableRow:
        header = {}
    if header.get("format") != FORMAT:
        raise source.error("no header", f'the first line must say "format": "{FORMAT}"', 1)
    if header.get("version") != VERSION:
        raise source.error(
            f"version {header.get('version')!r} of {FORMAT}", f"this reader knows version {VERSION}; convert it", 1
        )
    block_tokens = header.get("block_tokens")
    if block_tokens is None:
        return None
    try:
        return token_count(block_tokens, "block_tokens")
    except UnusableRow:
        raise source.error(f"block_tokens {block_tokens!r}", "give a whole number of tokens or null", 1) from None


def _read_rows(
    source: TraceSource, lines: Iterator[Line], block_tokens: int | None, workload_class: str
) -> Iterator[TracedRequest | DroppedRow]:
    identity = PrefixIdentity(source=source, block_tokens=block_tokens, rule="floor") if block_tokens else None
    for line in lines:
        try:
            yield _parse_row(line, identity, workload_class)
        except UnusableRow as unusable:
            yield DroppedRow(reason=unusable.reason)


def _parse_row(line: Line, identity: PrefixIdentity | None, workload_class: str) -> TracedRequest:
    row = parse_json_object(line.text)
    prompt_tokens = token_count(required(row, "prompt_tokens"), "prompt_tokens")
    blocks = row.get("prefix_blocks")
    if blocks is not None and identity is None:
        raise UnusableRow("prefix_blocks_without_block_tokens")
    return TracedRequest(
        arrival_s=time_in_units(required(row, "arrival_s"), "arrival_s"),
        prompt_tokens=prompt_tokens,
        output_tokens=token_count(required(row, "output_tokens"), "output_tokens"),
        workload_class=optional_text(row, "workload_class") or workload_class,
        session=optional_text(row, "session"),
        prefix_blocks=identity.check(blocks, prompt_tokens, line.number) if identity and blocks is not None else (),
    )
