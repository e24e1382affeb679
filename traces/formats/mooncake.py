"""Mooncake FAST'25 request traces: JSONL with 512-token prefix blocks.

Source: kvcache-ai/Mooncake, FAST25-release/README.md. `timestamp` is in milliseconds; `hash_ids` holds one id for each
block of 512 prompt tokens, the partial last one included.
"""

import contextlib
from collections.abc import Iterator, Sequence

from traces.formats.blocks import PrefixIdentity
from traces.formats.fields import UnusableRow, parse_json_object, required, time_in_units, token_count
from traces.formats.format import DroppedRow, TraceRows
from traces.formats.source import Line, TraceSource
from traces.requests import TracedRequest

BLOCK_TOKENS = 512
FIELDS = {"timestamp", "input_length", "output_length", "hash_ids"}
FOREIGN_FIELDS = {"chat_id", "block_size"}
"""Qwen-Bailian rows have Mooncake's fields too, but count seconds and 16-token blocks."""


class MooncakeFormat:
    name = "mooncake"
    header_lines = 0

    def recognises(self, head: Sequence[str]) -> bool:
        for text in head:
            with contextlib.suppress(UnusableRow):
                fields = parse_json_object(text).keys()
                if fields >= FIELDS and not fields & FOREIGN_FIELDS:
                    return True
        return False

    def read(self, source: TraceSource, workload_class: str) -> TraceRows:
        return TraceRows(block_tokens=BLOCK_TOKENS, rows=_read_rows(source, workload_class))


def _read_rows(source: TraceSource, workload_class: str) -> Iterator[TracedRequest | DroppedRow]:
    identity = PrefixIdentity(source=source, block_tokens=BLOCK_TOKENS, rule="ceil")
    for line in source.lines():
        try:
            yield _parse_row(line, identity, workload_class)
        except UnusableRow as unusable:
            yield DroppedRow(reason=unusable.reason)


def _parse_row(line: Line, identity: PrefixIdentity, workload_class: str) -> TracedRequest:
    row = parse_json_object(line.text)
    arrival_ms = time_in_units(required(row, "timestamp"), "timestamp")
    prompt_tokens = token_count(required(row, "input_length"), "input_length")
    output_tokens = token_count(required(row, "output_length"), "output_length")
    return TracedRequest(
        arrival_s=arrival_ms / 1000,
        prompt_tokens=prompt_tokens,
        output_tokens=output_tokens,
        workload_class=workload_class,
        prefix_blocks=identity.check(required(row, "hash_ids"), prompt_tokens, line.number),
    )
