import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from traces.formats.read import read_trace
from traces.replay.cost import StepCostModel
from traces.replay.engine import Schedule, simulate
from traces.replay.served_request import ServedRequest
from traces.replay.settings import EngineName, EngineSettings

A_SECOND_A_STEP = StepCostModel(
    weight_bytes=0,
    flops_per_token=0,
    attention_flops_per_pair=0,
    kv_bytes_per_token=0,
    flops_per_s=1,
    bandwidth_bytes_per_s=1,
    overhead_s=1,
)
BOTH_ENGINES = pytest.mark.parametrize("engine", ["vllm", "sglang"])


def request(
    arrival_s: float, prompt: int, output: int, blocks: tuple[int, ...] = (), workload_class: int = 0
) -> ServedRequest:
    return ServedRequest(
        arrival_s=arrival_s,
        prompt_tokens=prompt,
        output_tokens=output,
        blocks=blocks,
        workload_class=workload_class,
    )


def serve(
    requests: Sequence[ServedRequest],
    engine: EngineName,
    *,
    max_batched_tokens: int = 1_000,
    max_sequences: int = 8,
    kv_capacity_tokens: int = 100_000,
    block_tokens: int | None = None,
    cost_model: StepCostModel = A_SECOND_A_STEP,
    longest_run: int | None = None,
) -> Schedule:
    return simulate(
        requests,
        settings=EngineSettings(
            name=engine,
            max_batched_tokens=max_batched_tokens,
            max_sequences=min(max_sequences, max_batched_tokens),
            kv_capacity_tokens=kv_capacity_tokens,
        ),
        cost_model=cost_model,
        block_tokens=block_tokens,
        workload_classes=("coding", "chat"),
        longest_run=longest_run,
    )


def times(requests: Sequence[ServedRequest]) -> list[tuple[float, float]]:
    return [(each.first_token_s, each.finish_s) for each in requests]


def test_vllm_decodes_beside_a_prompt_in_parts() -> None:
    # a4 | a2 b2 | A b1 | A B: capitals decode
    requests = [request(0, 6, 3), request(0, 3, 2)]
    schedule = serve(requests, "vllm", max_batched_tokens=4)
    assert times(requests) == [(2, 4), (3, 4)]
    assert (schedule.steps, schedule.busy_s, schedule.span_s) == (4, 4, 4)


def test_sglang_lets_decodes_wait_for_prefill() -> None:
    # a4 | a2 b2 | b1 | A B | A
    requests = [request(0, 6, 3), request(0, 3, 2)]
    schedule = serve(requests, "sglang", max_batched_tokens=4)
    assert times(requests) == [(2, 5), (3, 4)]
    assert (schedule.steps, schedule.busy_s, schedule.span_s) == (5, 5, 5)


def test_vllm_admits_an_arrival_at_the_next_step() -> None:
    # a | A | A | A b | A B | A
    requests = [request(0, 10, 6), request(2.5, 10, 2)]
    serve(requests, "vllm")
    assert times(requests) == [(1, 6), (4, 5)]


def test_sglang_stops_decoding_for_an_arrival() -> None:
    # a | A | A | b | A B | A | A
    requests = [request(0, 10, 6), request(2.5, 10, 2)]
    serve(requests, "sglang")
    assert times(requests) == [(1, 7), (4, 5)]


@BOTH_ENGINES
def test_an_idle_device_waits_for_the_next_arrival(engine: EngineName) -> None:
    requests = [request(5, 10, 2), request(100, 10, 1)]
    schedule = serve(requests, engine)
    assert times(requests) == [(6, 7), (101, 101)]
    assert (schedule.busy_s, schedule.span_s) == (3, 96)


@BOTH_ENGINES
def test_no_more_sequences_run_than_allowed(engine: EngineName) -> None:
    requests = [request(0, 10, 3) for _ in range(3)]
    serve(requests, engine, max_sequences=2)
    assert times(requests) == [(1, 3), (1, 3), (4, 6)]


def test_vllm_preempts_the_last_admitted_and_computes_it_again() -> None:
    # a4 b4 | A B | A (b back in the queue) | A | A | A | b4+2 | B | B | B
    requests = [request(0, 4, 6), request(0, 4, 6)]
    schedule = serve(requests, "vllm", kv_capacity_tokens=10)
    assert times(requests) == [(1, 6), (1, 10)]
    assert (schedule.preemptions, schedule.steps) == (1, 10)


def test_sglang_retracts_the_one_with_the_least_output() -> None:
    # a4 | A | b5 | 4 times A B | A (b back in the queue) | 5 times A | b5+5 | B
    requests = [request(0, 4, 12), request(1.5, 5, 7)]
    schedule = serve(requests, "sglang", kv_capacity_tokens=18)
    assert times(requests) == [(1, 13), (3, 15)]
    assert (schedule.preemptions, schedule.steps) == (1, 15)


def test_sglang_admits_only_what_will_fit_with_its_output() -> None:
    requests = [request(0, 4, 6), request(0, 4, 6)]
    schedule = serve(requests, "sglang", kv_capacity_tokens=13)
    assert times(requests) == [(1, 6), (7, 12)]
    assert schedule.preemptions == 0


@BOTH_ENGINES
def test_a_known_prefix_is_not_computed_again(engine: EngineName) -> None:
    requests = [
        request(0, 130, 1, (1, 2)),
        request(100, 128, 1, (1, 2)),
        request(200, 200, 1, (1, 2, 3)),
        request(300, 200, 1, (1, 9, 10)),
    ]
    serve(requests, engine, block_tokens=64)
    assert [each.hit_tokens for each in requests] == [0, 64, 128, 64]


@BOTH_ENGINES
def test_a_prefix_is_known_once_it_is_computed_not_before(engine: EngineName) -> None:
    requests = [request(0, 256, 50, (1, 2, 3, 4)), request(0, 300, 1, (1, 2, 3, 4)), request(1.5, 300, 1, (1, 2, 3, 4))]
    serve(requests, engine, block_tokens=64)
    assert [each.hit_tokens for each in requests] == [0, 0, 256]


@BOTH_ENGINES
def test_hits_shorten_the_first_step(engine: EngineName) -> None:
    per_token = StepCostModel(
        weight_bytes=0,
        flops_per_token=1,
        attention_flops_per_pair=0,
        kv_bytes_per_token=0,
        flops_per_s=1,
        bandwidth_bytes_per_s=1,
    )
    requests = [request(0, 130, 1, (1, 2)), request(1_000, 130, 1, (1, 2))]
    serve(requests, engine, block_tokens=64, cost_model=per_token)
    assert [each.first_token_s - each.arrival_s for each in requests] == [130, 2]


@BOTH_ENGINES
def test_room_for_one_request_serves_many_in_turn(engine: EngineName) -> None:
    requests = [request(0, 60, 5, (index % 3,)) for index in range(200)]
    schedule = serve(requests, engine, kv_capacity_tokens=65, block_tokens=50)
    assert schedule.preemptions == 0
    assert [each.finish_s for each in requests] == [5 * (index + 1) for index in range(200)]


def test_refuses_a_request_that_never_fits() -> None:
    with pytest.raises(ValueError, match="60 \\+ 50 tokens never fits in kv_capacity_tokens 100"):
        serve([request(0, 60, 50)], "vllm", kv_capacity_tokens=100)


def test_refuses_more_sequences_than_tokens_in_a_step() -> None:
    with pytest.raises(ValueError, match="max_sequences 64 above max_batched_tokens 32"):
        EngineSettings(max_sequences=64, max_batched_tokens=32, kv_capacity_tokens=100)


WORK = st.tuples(st.integers(0, 300), st.integers(1, 60), st.integers(1, 60), st.integers(0, 3), st.integers(0, 1))
"""Arrival in 1/4 s, prompt, output, prefix family, class."""

EXACT_COST = StepCostModel(
    weight_bytes=64,
    flops_per_token=16,
    attention_flops_per_pair=1,
    kv_bytes_per_token=4,
    flops_per_s=128,
    bandwidth_bytes_per_s=256,
    overhead_s=0.125,
)
"""Sums of its times are exact in floating point, so that two ways to add them up must agree to the bit."""


def build(work: Sequence[tuple[int, int, int, int, int]], block_tokens: int) -> list[ServedRequest]:
    return [
        request(
            arrival / 4,
            prompt,
            output,
            tuple(family * 1_000 + index for index in range(prompt // block_tokens)),
            workload_class,
        )
        for arrival, prompt, output, family, workload_class in sorted(work)
    ]


SCENES = st.fixed_dictionaries(
    {
        "engine": st.sampled_from(["vllm", "sglang"]),
        "max_batched_tokens": st.integers(4, 64),
        "max_sequences": st.integers(1, 8),
        "kv_capacity_tokens": st.integers(120, 300),
        "block_tokens": st.sampled_from([4, 16]),
    }
)


@settings(max_examples=300, deadline=None)
@given(work=st.lists(WORK, min_size=1, max_size=20), scene=SCENES)
def test_jumps_over_decodes_change_nothing(work: list[tuple[int, int, int, int, int]], scene: dict[str, Any]) -> None:
    jumped, stepped = (build(work, scene["block_tokens"]) for _ in range(2))
    fast = serve(jumped, cost_model=EXACT_COST, **scene)
    slow = serve(stepped, cost_model=EXACT_COST, longest_run=1, **scene)
    assert jumped == stepped or times(jumped) == times(stepped)
    assert [each.hit_tokens for each in jumped] == [each.hit_tokens for each in stepped]
    assert (fast.steps, fast.busy_s, fast.span_s, fast.preemptions) == (
        slow.steps,
        slow.busy_s,
        slow.span_s,
        slow.preemptions,
    )
    kinds = [
        [(step.count, step.duration_s, step.prefill_tokens, step.decode_batch, step.share_by_class) for step in steps]
        for steps in (fast.buckets.largest(1_000), slow.buckets.largest(1_000))
    ]
    assert sorted(kinds[0], key=str) == sorted(kinds[1], key=str)


@settings(max_examples=300, deadline=None)
@given(work=st.lists(WORK, min_size=1, max_size=20), scene=SCENES)
def test_nothing_is_lost(work: list[tuple[int, int, int, int, int]], scene: dict[str, Any]) -> None:
    requests = build(work, scene["block_tokens"])
    schedule = serve(requests, cost_model=EXACT_COST, **scene)
    steps = schedule.buckets.largest(1_000)
    for each in requests:
        assert each.arrival_s < each.first_token_s <= each.finish_s
        assert each.emitted_tokens == each.output_tokens
        assert (each.finish_s == each.first_token_s) == (each.output_tokens == 1)
    assert sum(step.count for step in steps) == schedule.steps
    assert sum(step.duration_s for step in steps) == schedule.busy_s
    assert schedule.busy_s <= schedule.span_s
    assert schedule.span_s == max(each.finish_s for each in requests) - requests[0].arrival_s
    assert all(sum(step.share_by_class.values()) == pytest.approx(1) for step in steps)
    if schedule.preemptions == 0:
        first_tokens = [each.first_token_s for each in requests]
        assert first_tokens == sorted(first_tokens)


@settings(max_examples=60, deadline=None)
@given(work=st.lists(WORK, min_size=1, max_size=12), engine=st.sampled_from(["vllm", "sglang"]))
def test_each_token_is_computed_once(work: list[tuple[int, int, int, int, int]], engine: EngineName) -> None:
    a_second_a_token = StepCostModel(
        weight_bytes=0,
        flops_per_token=1,
        attention_flops_per_pair=0,
        kv_bytes_per_token=0,
        flops_per_s=1,
        bandwidth_bytes_per_s=1,
    )
    requests = build(work, 4)
    schedule = serve(requests, engine, block_tokens=4, cost_model=a_second_a_token)
    assert schedule.preemptions == 0
    assert schedule.busy_s == sum(each.prompt_tokens - each.hit_tokens + each.output_tokens - 1 for each in requests)


@BOTH_ENGINES
def test_hits_in_the_real_conversation_trace_are_all_that_its_blocks_allow(
    shared_traces: Path, engine: EngineName
) -> None:
    trace = read_trace([shared_traces / "requests" / "mooncake_conversation.jsonl"])
    requests = [
        request(index * 1e6, traced.prompt_tokens, 2, traced.prefix_blocks[: traced.prompt_tokens // 512])
        for index, traced in enumerate(trace.requests)
    ]
    serve(requests, engine, block_tokens=512, max_batched_tokens=8_192, kv_capacity_tokens=200_000_000)
    seen: set[int] = set()
    for each in requests:
        leading = next((index for index, block in enumerate(each.blocks) if block not in seen), len(each.blocks))
        assert each.hit_tokens == min(leading, (each.prompt_tokens - 1) // 512) * 512
        seen.update(each.blocks)


def test_replay_of_a_real_vllm_run_comes_close_to_what_was_measured(shared_traces: Path) -> None:
    """vLLM 0.19, Llama-3.1-8B in bfloat16 on an RTX 4090; the cost model is its datasheet, not fitted."""
    folder = shared_traces / "vllm_run"
    rows = [json.loads(line) for line in (folder / "vllm_RTX4090_Llama-3.1-8B_requests.jsonl").read_text().splitlines()]
    rows.sort(key=lambda row: row["queued_ts"])
    ids = {
        row["request_id"]: row["hash_ids"]
        for row in map(json.loads, (folder / "prefix_ids.jsonl").read_text().splitlines())
    }
    requests = [
        request(
            row["queued_ts"],
            row["input_toks"],
            row["output_toks"],
            tuple(ids[row["request_id"]][: row["input_toks"] // 16]),
        )
        for row in rows
    ]
    llama_on_4090 = StepCostModel(
        weight_bytes=2 * 7.5e9,
        flops_per_token=2 * 7.5e9,
        attention_flops_per_pair=4 * 32 * 32 * 128,
        kv_bytes_per_token=2 * 2 * 32 * 8 * 128,
        flops_per_s=165e12,
        bandwidth_bytes_per_s=1_008e9,
        overhead_s=0.005,
    )
    serve(
        requests,
        "vllm",
        cost_model=llama_on_4090,
        max_batched_tokens=2_048,
        max_sequences=256,
        kv_capacity_tokens=2_588 * 16,
        block_tokens=16,
    )
    measured_ttft = np.mean([row["first_token_ts"] - row["queued_ts"] for row in rows])
    measured_latency = np.mean([row["last_token_ts"] - row["queued_ts"] for row in rows])
    ttft = np.mean([each.first_token_s - each.arrival_s for each in requests])
    latency = np.mean([each.finish_s - each.arrival_s for each in requests])
    assert ttft == pytest.approx(measured_ttft, rel=0.1)
    assert latency == pytest.approx(measured_latency, rel=0.1)
