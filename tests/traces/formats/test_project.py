import json
from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st
from trace_format_contract import TraceFormatContract

from traces.formats.project import write_rows
from traces.formats.read import read_trace
from traces.requests import TracedRequest, TraceError

HEADER = '{"format":"compiler-agent-requests","version":1,"block_tokens":64}'


def row(**changes: object) -> str:
    fields = {"arrival_s": 0, "prompt_tokens": 130, "output_tokens": 5, "prefix_blocks": [1, 2]} | changes
    return json.dumps({name: value for name, value in fields.items() if value is not None})


class TestProjectFormat(TraceFormatContract):
    name = "project"
    header = (HEADER,)
    rows = (
        row(arrival_s=1.25),
        row(arrival_s=2.25, prompt_tokens=63, prefix_blocks=[]),
        row(arrival_s=3.25, prompt_tokens=1_000, prefix_blocks=None),
    )
    bad_rows: ClassVar[dict[str, str]] = {
        "bad_json": '{"arrival_s": 3, "pro',
        "not_an_object": "7",
        "missing_arrival_s": row(arrival_s=None),
        "missing_prompt_tokens": row(prompt_tokens=None),
        "missing_output_tokens": row(output_tokens=None),
        "not_finite_arrival_s": row(arrival_s=float("inf")),
        "negative_arrival_s": row(arrival_s=-0.5),
        "zero_output_tokens": row(output_tokens=0),
        "not_an_integer_prompt_tokens": row(prompt_tokens="130"),
        "not_a_text_workload_class": row(workload_class=3),
        "not_a_text_session: empty": row(session=""),
        "duplicate_block_ids": row(prefix_blocks=[9, 9]),
        "more_blocks_than_prompt": row(prefix_blocks=[1, 2, 3]),
        "block_id_beyond_64_bits": row(prefix_blocks=[-1, 2]),
    }

    def test_takes_class_and_session_from_the_row(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "night.jsonl", row(workload_class="coding", session="a"), row())
        first, second = read_trace([path]).requests
        assert (first.workload_class, first.session) == ("coding", "a")
        assert (second.workload_class, second.session) == ("night", None)

    def test_refuses_a_trace_whose_blocks_cannot_cover_a_prompt(self, tmp_path: Path) -> None:
        path = self.write(tmp_path / "traffic", row(prefix_blocks=[1]))
        with pytest.raises(TraceError, match=r"traffic, line 2: 1 prefix blocks of 64 tokens cannot cover"):
            read_trace([path])

    def test_drops_blocks_that_no_header_gives_a_size(self, tmp_path: Path) -> None:
        path = tmp_path / "traffic"
        rows = [row(), row(prefix_blocks=None)]
        path.write_text("\n".join(['{"format":"compiler-agent-requests","version":1}', *rows]))
        trace = read_trace([path])
        assert trace.block_tokens is None
        assert trace.counts.dropped == {"prefix_blocks_without_block_tokens": 1}

    @pytest.mark.parametrize(
        ("header", "complaint"),
        [
            ("{}", "no header"),
            ('{"format":"compiler-agent-requests","version":2}', "version 2"),
            ('{"format":"compiler-agent-requests"}', "version None"),
            ('{"format":"compiler-agent-requests","version":1,"block_tokens":0}', "block_tokens 0"),
        ],
    )
    def test_refuses_a_header_that_it_does_not_know(self, tmp_path: Path, header: str, complaint: str) -> None:
        path = tmp_path / "traffic"
        path.write_text(f"{header}\n{row()}\n")
        with pytest.raises(TraceError, match=f"line 1: {complaint}"):
            read_trace([path], format="project")


REQUESTS = st.builds(
    TracedRequest,
    arrival_s=st.floats(0, 1e6),
    prompt_tokens=st.integers(1, 63),
    output_tokens=st.integers(1, 10_000),
    workload_class=st.text(min_size=1),
    session=st.none() | st.text(min_size=1),
)


@given(requests=st.lists(REQUESTS, min_size=1))
def test_what_is_written_is_read_again(tmp_path_factory: pytest.TempPathFactory, requests: list[TracedRequest]) -> None:
    path = tmp_path_factory.mktemp("written") / "traffic"
    first = TracedRequest(arrival_s=0.0, prompt_tokens=128, output_tokens=1, workload_class="x", prefix_blocks=(1, 5))
    path.write_text("\n".join(write_rows([first, *requests], 64)), encoding="utf-8")
    assert read_trace([path]).requests == sorted([first, *requests], key=lambda request: request.arrival_s)
