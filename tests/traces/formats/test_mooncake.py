import json
from pathlib import Path
from typing import ClassVar

import pytest
from trace_format_contract import TraceFormatContract

from traces.formats.read import read_trace
from traces.requests import TraceError


def row(**changes: object) -> str:
    fields = {"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [1, 2]} | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


class TestMooncakeFormat(TraceFormatContract):
    name = "mooncake"
    rows = (
        row(timestamp=27_000, input_length=512, hash_ids=[1]),
        row(timestamp=28_000, input_length=513, hash_ids=[1, 2]),
        row(timestamp=29_000, input_length=1_024, hash_ids=[1, 3]),
    )
    bad_rows: ClassVar[dict[str, str]] = {
        "bad_json": '{"timestamp": 3, "input_len',
        "not_an_object": "[1, 2]",
        "missing_timestamp": row(timestamp=None),
        "missing_input_length": row(input_length=None),
        "missing_output_length": row(output_length=None),
        "missing_hash_ids": row(hash_ids=None),
        "not_finite_timestamp: nan": row(timestamp=float("nan")),
        "not_finite_timestamp: beyond float": row(timestamp=10**400),
        "negative_timestamp": row(timestamp=-1),
        "not_a_number_timestamp": row(timestamp="0"),
        "zero_input_length": row(input_length=0),
        "negative_input_length": row(input_length=-512),
        "not_an_integer_input_length": row(input_length=float("nan")),
        "too_large_input_length": row(input_length=2**40),
        "zero_output_length": row(output_length=0),
        "negative_output_length": row(output_length=-1),
        "not_an_integer_output_length: fraction": row(output_length=1.5),
        "not_an_integer_output_length: boolean": row(output_length=True),
        "duplicate_block_ids": row(hash_ids=[7, 7]),
        "more_blocks_than_prompt": row(hash_ids=[7, 8, 9]),
        "block_ids_not_integers: text": row(hash_ids=["7", "8"]),
        "block_ids_not_integers: no list": row(hash_ids=7),
        "block_id_beyond_64_bits": row(hash_ids=[1, 2**64]),
    }

    def test_arrivals_are_milliseconds_and_blocks_hold_512_tokens(self, tmp_path: Path) -> None:
        trace = read_trace([self.write(tmp_path / "conversation.jsonl", row(), row(timestamp=1_500))])
        assert [request.arrival_s for request in trace.requests] == [0.0, 1.5]
        assert trace.block_tokens == 512
        assert trace.requests[0].prefix_blocks == (1, 2)
        assert trace.requests[0].workload_class == "conversation"

    def test_keeps_ids_apart_that_agree_in_their_low_32_bits(self, tmp_path: Path) -> None:
        rows = [row(input_length=512, hash_ids=[block]) for block in (5, 5 + 2**32, 2**64 - 1)]
        trace = read_trace([self.write(tmp_path / "traffic", *rows)])
        assert {request.prefix_blocks for request in trace.requests} == {(5,), (5 + 2**32,), (2**64 - 1,)}

    def test_drops_a_row_whose_block_had_another_prefix_before(self, tmp_path: Path) -> None:
        trace = read_trace([self.write(tmp_path / "traffic", row(hash_ids=[1, 2]), row(hash_ids=[5, 2]))])
        assert trace.counts.dropped == {"block_id_with_two_prefixes": 1}

    @pytest.mark.parametrize("ids", [[], [1], list(range(7))])
    def test_refuses_a_trace_whose_blocks_cannot_cover_a_prompt(self, tmp_path: Path, ids: list[int]) -> None:
        path = self.write(tmp_path / "traffic", row(), row(input_length=512 * 7 + 1, hash_ids=ids))
        with pytest.raises(TraceError, match=rf"traffic, line 2: {len(ids)} prefix blocks .* cannot cover .*3585"):
            read_trace([path])

    def test_leaves_qwen_bailian_rows_to_others(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "traffic", row(chat_id=159, parent_chat_id=55, turn=2))
        with pytest.raises(TraceError, match="unknown format"):
            read_trace([path])

    def test_real_conversation_trace_has_its_published_facts(self, shared_traces: Path) -> None:
        trace = read_trace([shared_traces / "requests" / "mooncake_conversation.jsonl"])
        assert (trace.counts.read, trace.counts.kept, trace.counts.dropped) == (12_031, 12_031, {})
        assert len({request.arrival_s for request in trace.requests}) == 1_180
        assert round(sum(request.prompt_tokens for request in trace.requests) / 12_031) == 12_035
        assert round(sum(request.output_tokens for request in trace.requests) / 12_031) == 343
        seen: set[int] = set()
        blocks = tokens = reused_blocks = reused_tokens = 0
        for request in trace.requests:
            assert len(request.prefix_blocks) == -(-request.prompt_tokens // 512)
            tokens += request.prompt_tokens
            for index, block in enumerate(request.prefix_blocks):
                blocks += 1
                if block in seen:
                    reused_blocks += 1
                    reused_tokens += min(512, request.prompt_tokens - index * 512)
                seen.add(block)
        assert len(seen) == 182_790
        assert reused_blocks / blocks == pytest.approx(0.366, abs=5e-4)
        assert reused_tokens / tokens == pytest.approx(0.374, abs=5e-4)
