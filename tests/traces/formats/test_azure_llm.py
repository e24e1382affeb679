from pathlib import Path
from typing import ClassVar

import pytest
from trace_format_contract import TraceFormatContract

from traces.formats.read import read_trace
from traces.requests import TraceError


class TestAzureLlmFormat(TraceFormatContract):
    name = "azure_llm"
    header = ("TIMESTAMP,ContextTokens,GeneratedTokens",)
    rows = (
        "2023-11-16 23:59:59.9799600,4808,10",
        "2023-11-17 00:00:00.9799601,3180,8",
        "2023-11-17 00:00:01.9799600,110,27",
    )
    bad_rows: ClassVar[dict[str, str]] = {
        "bad_TIMESTAMP: words": "yesterday,1,1",
        "bad_TIMESTAMP: month 13": "2023-13-16 18:17:03.9799600,1,1",
        "bad_TIMESTAMP: nan": "nan,1,1",
        "missing_TIMESTAMP": ",1,1",
        "missing_ContextTokens": "2023-11-16 18:17:03.9799600,,10",
        "not_an_integer_ContextTokens": "2023-11-16 18:17:03.9799600,NaN,10",
        "zero_ContextTokens": "2023-11-16 18:17:03.9799600,0,10",
        "negative_ContextTokens": "2023-11-16 18:17:03.9799600,-5,10",
        "too_large_ContextTokens": "2023-11-16 18:17:03.9799600,99999999999999,10",
        "zero_GeneratedTokens": "2023-11-16 18:17:03.9799600,10,0",
        "negative_GeneratedTokens": "2023-11-16 18:17:03.9799600,10,-1",
        "not_an_integer_GeneratedTokens": "2023-11-16 18:17:03.9799600,10,1.0",
        "missing_GeneratedTokens": "2023-11-16 18:17:03.9799600,10,",
        "wrong_number_of_columns: cut": "2023-11-16 18:17:03.97",
        "wrong_number_of_columns: more": "2023-11-16 18:17:03.9799600,1,1,1",
    }

    def test_keeps_all_seven_digits_of_a_fraction(self, tmp_path: Path) -> None:
        rows = ["2023-11-16 18:17:03.0000001,1,1", "2023-11-16 18:17:03.0000004,2,1"]
        trace = read_trace([self.write(tmp_path / "traffic", *rows)])
        assert trace.requests[1].arrival_s == pytest.approx(3e-7, rel=1e-6)

    @pytest.mark.parametrize("zone", ["Z", "+00:00", "+0000", ""])
    def test_takes_2024_timestamps_with_a_zone(self, tmp_path: Path, zone: str) -> None:
        rows = ["2024-05-10 00:00:00.009930+00:00,2162,5", f"2024-05-10 00:00:02.009930{zone},7,5"]
        trace = read_trace([self.write(tmp_path / "traffic", *rows)])
        assert trace.requests[1].arrival_s == pytest.approx(2.0)

    def test_reads_columns_by_name(self, tmp_path: Path) -> None:
        path = tmp_path / "traffic"
        path.write_text("GeneratedTokens,NumImages,TIMESTAMP,ContextTokens\n5,1,2024-05-10 00:00:00,700\n")
        (request,) = read_trace([path]).requests
        assert (request.prompt_tokens, request.output_tokens) == (700, 5)

    def test_has_no_prefix_identity(self, tmp_path: Path) -> None:
        trace = read_trace([self.write(tmp_path / "traffic", *self.rows)])
        assert trace.block_tokens is None
        assert all(request.prefix_blocks == () for request in trace.requests)

    def test_refuses_a_file_without_the_columns(self, tmp_path: Path) -> None:
        path = tmp_path / "traffic"
        path.write_text("TIMESTAMP,ContextTokens\n2023-11-16 18:17:03,1\n")
        with pytest.raises(TraceError, match=r"traffic, line 1: no column GeneratedTokens"):
            read_trace([path], format="azure_llm")

    def test_real_code_trace_has_its_published_facts(self, shared_traces: Path) -> None:
        path = shared_traces / "requests" / "azure_llm_2023_code.csv"
        content = path.read_bytes()
        assert content.count(b"\r\n") == 8_819
        assert not content.endswith(b"\n")
        trace = read_trace([path])
        assert (trace.counts.read, trace.counts.kept, trace.counts.dropped) == (8_819, 8_819, {})
        assert round(trace.requests[-1].arrival_s) == 3_436
        assert round(sum(request.prompt_tokens for request in trace.requests) / 8_819) == 2_048
        assert round(sum(request.output_tokens for request in trace.requests) / 8_819) == 28
        assert max(request.prompt_tokens for request in trace.requests) == 7_437
        assert max(request.output_tokens for request in trace.requests) == 1_899
        assert all(request.prefix_blocks == () for request in trace.requests)
