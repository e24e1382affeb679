from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.formats.read import read_trace
from traces.replay.cost import StepCostModel
from traces.replay.replay import MOST_BUCKETS, Replay, fit_window, replay_trace
from traces.replay.report import Distribution
from traces.replay.settings import EngineName, EngineSettings
from traces.requests import ReadCounts, RequestTrace, TracedRequest
from traces.sample import SAMPLE_TRACE

LAPTOP = StepCostModel(
    weight_bytes=270e6,
    flops_per_token=270e6,
    attention_flops_per_pair=4 * 30 * 9 * 64,
    kv_bytes_per_token=2 * 4 * 30 * 3 * 64,
    flops_per_s=60e9,
    bandwidth_bytes_per_s=15e9,
    overhead_s=0.002,
)
A_SECOND_A_STEP = StepCostModel(
    weight_bytes=0,
    flops_per_token=0,
    attention_flops_per_pair=0,
    kv_bytes_per_token=0,
    flops_per_s=1,
    bandwidth_bytes_per_s=1,
    overhead_s=1,
)


def laptop_engine(name: EngineName = "vllm") -> EngineSettings:
    return EngineSettings(name=name, max_batched_tokens=512, max_sequences=32, kv_capacity_tokens=65_536)


def trace(
    *requests: TracedRequest, dropped: dict[str, int] | None = None, block_tokens: int | None = 64
) -> RequestTrace:
    dropped = dropped or {}
    return RequestTrace(
        requests=list(requests),
        counts=ReadCounts(read=len(requests) + sum(dropped.values()), kept=len(requests), dropped=dropped),
        format="project",
        block_tokens=block_tokens,
        digest="0" * 64,
    )


def traced(arrival_s: float, prompt: int, output: int, workload_class: str = "chat") -> TracedRequest:
    return TracedRequest(arrival_s=arrival_s, prompt_tokens=prompt, output_tokens=output, workload_class=workload_class)


def in_seconds(requests: RequestTrace, **settings: float) -> Replay:
    engine = EngineSettings(kv_capacity_tokens=1_000, max_batched_tokens=500, **settings)
    return replay_trace(requests, A_SECOND_A_STEP, engine, max_context_tokens=1_000, utilisation=None)


def test_reports_what_users_saw() -> None:
    report = in_seconds(trace(traced(0, 10, 4), traced(0.5, 10, 1), traced(2.5, 10, 2))).report
    # first tokens after 1, 1.5 and 1.5 s; last tokens after 4, 1.5 and 2.5 s; steps at 1 … 5
    assert report.ttft_s == Distribution.of([1.0, 1.5, 1.5])
    assert report.latency_s == Distribution.of([4.0, 1.5, 2.5])
    assert report.tpot_s == Distribution.of([1.0, 1.0])
    assert (report.steps, report.span_s, report.utilisation) == (5, 5, 1)
    assert report.throughput_tokens_per_s == 7 / 5


def test_goodput_counts_requests_within_both_limits() -> None:
    requests = trace(traced(0, 10, 4), traced(0.5, 10, 1), traced(2.5, 10, 2))
    assert in_seconds(requests, ttft_limit_s=2, tpot_limit_s=1).report.goodput_tokens_per_s == 7 / 5
    assert in_seconds(requests, ttft_limit_s=1.2, tpot_limit_s=1).report.goodput_tokens_per_s == 4 / 5
    assert in_seconds(requests, ttft_limit_s=2, tpot_limit_s=0.5).report.goodput_tokens_per_s == 1 / 5


def test_one_token_answers_have_no_tpot() -> None:
    assert in_seconds(trace(traced(0, 10, 1))).report.tpot_s is None


def test_requests_beyond_the_window_are_truncated_kept_and_counted() -> None:
    report = in_seconds(trace(traced(0, 5_000, 10), traced(0, 10, 5_000), traced(0, 990, 10))).report
    assert (report.requests.read, report.requests.kept, report.requests.truncated) == (3, 3, 2)
    assert report.throughput_tokens_per_s * report.span_s == pytest.approx(10 + 990 + 10)


def test_limit_counts_the_rest_as_dropped() -> None:
    requests = trace(*(traced(index, 10, 2) for index in range(10)), dropped={"bad_json": 3})
    report = replay_trace(requests, LAPTOP, laptop_engine(), max_context_tokens=512, limit=4).report
    assert report.requests.model_dump() == {
        "read": 13,
        "kept": 4,
        "dropped": {"bad_json": 3, "beyond_limit": 6},
        "truncated": 0,
    }


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_sample_trace_fills_the_device_as_asked(engine: EngineName) -> None:
    sample = read_trace([SAMPLE_TRACE])
    replay = replay_trace(sample, LAPTOP, laptop_engine(engine), max_context_tokens=8_192, utilisation=0.8)
    report = replay.report
    assert report.utilisation == pytest.approx(0.8, abs=0.015)
    assert report.requests.kept == sample.counts.kept
    assert 0.5 < report.prefix_hit_rate < 1
    assert 0 < report.goodput_tokens_per_s <= report.throughput_tokens_per_s
    assert len(replay.steps) <= MOST_BUCKETS
    assert replay.coverage > 0.97
    assert sum(step.duration_s for step in replay.steps) == pytest.approx(
        replay.coverage * report.utilisation * report.span_s
    )
    assert {name for step in replay.steps for name in step.share_by_class} == {"coding", "chat"}


def test_same_input_gives_the_same_replay() -> None:
    sample = read_trace([SAMPLE_TRACE])
    first, second = (replay_trace(sample, LAPTOP, laptop_engine(), max_context_tokens=8_192) for _ in range(2))
    assert first.steps == second.steps
    assert first.report.model_dump(exclude={"wall_s"}) == second.report.model_dump(exclude={"wall_s"})


def test_no_prefix_identity_means_no_hits_and_says_so() -> None:
    report = replay_trace(
        trace(traced(0, 128, 2), traced(9, 128, 2), block_tokens=None), LAPTOP, laptop_engine(), max_context_tokens=512
    ).report
    assert (report.has_prefix_identity, report.prefix_hit_rate) == (False, 0.0)


def test_refuses_a_window_larger_than_the_cache() -> None:
    with pytest.raises(ValueError, match="window of 70000 tokens does not fit in kv_capacity_tokens 65536"):
        replay_trace(trace(traced(0, 1, 1)), LAPTOP, laptop_engine(), max_context_tokens=70_000)


@given(prompt=st.integers(1, 5_000), output=st.integers(1, 5_000), window=st.integers(2, 3_000))
def test_what_fits_a_window_is_as_much_as_possible(prompt: int, output: int, window: int) -> None:
    kept_prompt, kept_output = fit_window(prompt, output, window)
    assert 1 <= kept_prompt <= prompt
    assert 1 <= kept_output <= output
    assert kept_prompt + kept_output == min(prompt + output, window)


@pytest.mark.parametrize("engine", ["vllm", "sglang"])
def test_replays_the_real_conversation_trace_within_a_small_window(shared_traces: Path, engine: EngineName) -> None:
    conversation = read_trace([shared_traces / "requests" / "mooncake_conversation.jsonl"])
    report = replay_trace(
        conversation, LAPTOP, laptop_engine(engine), max_context_tokens=8_192, utilisation=None
    ).report
    beyond = sum(each.prompt_tokens + each.output_tokens > 8_192 for each in conversation.requests)
    assert (report.requests.read, report.requests.kept, report.requests.truncated) == (12_031, 12_031, beyond)
    assert 0 < report.prefix_hit_rate < 0.374
