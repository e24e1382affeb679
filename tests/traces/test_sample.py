import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from traces.formats.read import read_trace
from traces.requests import TracedRequest
from traces.sample import SAMPLE_TRACE, WINDOW_TOKENS, generate_sample


def of_class(name: str, requests: list[TracedRequest]) -> list[TracedRequest]:
    return [request for request in requests if request.workload_class == name]


def test_shipped_file_is_what_the_command_writes(tmp_path: Path) -> None:
    path = tmp_path / "sample.jsonl"
    subprocess.run([sys.executable, "-m", "traces.sample", "--output", path], check=True)
    assert path.read_bytes() == SAMPLE_TRACE.read_bytes()


def test_shipped_file_is_small_whole_and_of_both_classes() -> None:
    trace = read_trace([SAMPLE_TRACE])
    assert SAMPLE_TRACE.stat().st_size < 300_000
    assert trace.counts.read == trace.counts.kept == len(trace.requests)
    assert 400 <= len(trace.requests) <= 600
    assert trace.block_tokens == 64
    assert min(len(of_class(name, trace.requests)) for name in ("coding", "chat")) > 150


def test_equal_seeds_give_equal_traces_and_others_do_not() -> None:
    assert generate_sample(seed=7) == generate_sample(seed=7)
    assert generate_sample(seed=7) != generate_sample(seed=8)


@pytest.fixture(scope="module")
def long_sample() -> list[TracedRequest]:
    return generate_sample(seed=3, span_s=24 * 3600.0)


def test_requests_fit_the_window_and_name_their_whole_blocks(long_sample: list[TracedRequest]) -> None:
    for request in long_sample:
        assert request.prompt_tokens + request.output_tokens <= WINDOW_TOKENS
        assert len(request.prefix_blocks) == request.prompt_tokens // 64


def test_prompts_grow_turn_by_turn_on_the_prompt_before(long_sample: list[TracedRequest]) -> None:
    last: dict[str, TracedRequest] = {}
    for request in long_sample:
        assert request.session is not None
        before = last.get(request.session)
        if before is not None:
            assert request.prompt_tokens > before.prompt_tokens + before.output_tokens
            assert request.prefix_blocks[: len(before.prefix_blocks)] == before.prefix_blocks
        last[request.session] = request


def test_coding_prompts_are_long_and_mostly_known_with_short_answers(long_sample: list[TracedRequest]) -> None:
    coding, chat = of_class("coding", long_sample), of_class("chat", long_sample)
    assert np.mean([each.prompt_tokens for each in coding]) > 3 * np.mean([each.prompt_tokens for each in chat])
    assert np.mean([each.output_tokens for each in coding]) < np.mean([each.output_tokens for each in chat]) / 3
    seen: set[int] = set()
    known = 0
    for each in coding:
        known += len(seen.intersection(each.prefix_blocks))
        seen.update(each.prefix_blocks)
    assert known / sum(len(each.prefix_blocks) for each in coding) > 0.8


def test_different_sessions_share_their_system_prompt_alone(long_sample: list[TracedRequest]) -> None:
    chat = of_class("chat", long_sample)
    one, other = next((one, other) for one in chat for other in chat if one.session != other.session)
    assert set(one.prefix_blocks) & set(other.prefix_blocks) <= {one.prefix_blocks[0]}


def test_chat_swings_over_the_span(long_sample: list[TracedRequest]) -> None:
    firsts = {each.session: each.arrival_s for each in reversed(of_class("chat", long_sample))}
    starts = np.array(list(firsts.values()))
    night = np.sum((starts < 3 * 3600) | (starts >= 21 * 3600))
    noon = np.sum((starts >= 9 * 3600) & (starts < 15 * 3600))
    assert noon > 2 * night
