from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from candidates.describe_hot_ops import coverage, describe_hot_ops, rank_correlations, spearman, unmatched_calls
from candidates.extraction import Obstacle, extract_task
from candidates.site_timing import SiteTimes, choose_threads, measure_sites
from candidates.task import KernelTask
from traces.capture import capture_calls, find_model_sites
from traces.model_calls import ModelCall, model_calls
from traces.replay.step import EngineStep
from traces.served_model import open_model
from traces.sites import CapturedSite

STEPS = [
    EngineStep(
        prefill_tokens=prefill,
        prefill_context=0,
        decode_batch=batch,
        decode_context=20 * batch,
        count=count,
        duration_s=1.0,
        share_by_class=shares,
    )
    for prefill, batch, count, shares in [
        (100, 1, 2.0, {"chat": 1.0}),
        (40, 3, 5.0, {"coding": 1.0}),
        (0, 8, 30.0, {"chat": 0.5, "coding": 0.5}),
    ]
]


@pytest.fixture(scope="module")
def model(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> Any:
    return open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).load()


@pytest.fixture(scope="module")
def captured(tiny_llama: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[CapturedSite, ...]:
    fake = open_model(str(tiny_llama), tmp_path_factory.mktemp("home")).fake_module()
    return capture_calls(fake, find_model_sites(fake), STEPS, span_s=60.0)


@pytest.fixture(scope="module")
def times(model: Any, captured: tuple[CapturedSite, ...]) -> SiteTimes:
    return measure_sites(model, captured, model_calls(STEPS, 60.0), threads=1, budget_s=3.0)


@pytest.fixture(scope="module")
def extracted(model: Any, captured: tuple[CapturedSite, ...], times: SiteTimes) -> dict[str, KernelTask | Obstacle]:
    return {
        each.site.op: extract_task(
            model,
            each,
            time_us=lambda call, op=each.site.op: times.call_us(op, call),
            device_id="cpu-0",
            threads=1,
            keep=4,
        )
        for each in captured
    }


def test_every_site_is_timed_in_both_phases(times: SiteTimes, captured: tuple[CapturedSite, ...]) -> None:
    assert set(times.one_call) == {each.site.op for each in captured}
    assert {call.is_decode for call in times.measured_passes} == {True, False}


def test_what_is_inside_takes_less_than_what_is_around_it(times: SiteTimes) -> None:
    call = times.measured_passes[0]
    around = [times.one_call[op].estimate_us(call) for op in ("LlamaMLP.region0", "LlamaMLP", "LlamaDecoderLayer")]
    assert around == sorted(around)


def test_measuring_leaves_model_and_threads_as_they_were(model: Any, times: SiteTimes) -> None:
    assert not any("forward" in vars(module) for module in model.modules())
    before = torch.get_num_threads()
    choice = choose_threads(model, ModelCall(batch=2, tokens=1, context=8), budget_s=0.1)
    assert torch.get_num_threads() == before
    assert choice.threads in choice.decode_us_by_threads


def test_no_budget_still_measures_each_phase_once(model: Any, captured: tuple[CapturedSite, ...]) -> None:
    times = measure_sites(model, captured[:1], model_calls(STEPS, 60.0), threads=1, budget_s=0.0)
    assert sorted(call.is_decode for call in times.measured_passes) == [False, True]


def test_hot_ops_share_the_device_time(
    captured: tuple[CapturedSite, ...], times: SiteTimes, extracted: dict[str, KernelTask | Obstacle]
) -> None:
    hot_ops = describe_hot_ops(captured, times, extracted, floor_us=lambda task, workload: 0.5)
    assert len(hot_ops) == len(captured)
    assert 0.0 < coverage(hot_ops) < 1.2
    assert [h.recoverable_share for h in hot_ops] == sorted((h.recoverable_share for h in hot_ops), reverse=True)
    for hot_op in hot_ops:
        assert 0 <= hot_op.recoverable_share <= hot_op.share_of_time
        assert set(hot_op.share_by_class) == {"chat", "coding"}
        assert (hot_op.task_id is None) == (hot_op.obstacle is not None)


def test_a_floor_above_the_time_leaves_nothing_to_recover(
    captured: tuple[CapturedSite, ...], times: SiteTimes, extracted: dict[str, KernelTask | Obstacle]
) -> None:
    hot_ops = describe_hot_ops(captured, times, extracted, floor_us=lambda task, workload: 1e9)
    assert all(h.recoverable_share == pytest.approx(0.0) for h in hot_ops if h.task_id)


def test_calls_that_no_task_serves_are_counted_by_reason(
    captured: tuple[CapturedSite, ...], extracted: dict[str, KernelTask | Obstacle]
) -> None:
    unmatched = unmatched_calls(captured, extracted)
    (attention,) = [count for reason, count in unmatched.items() if reason.startswith("scaled_dot_product_attention")]
    assert attention == 3 * 60 * (2 + 2 + 5 + 5 + 30)


def test_classes_are_compared_pair_by_pair(
    captured: tuple[CapturedSite, ...], times: SiteTimes, extracted: dict[str, KernelTask | Obstacle]
) -> None:
    correlations = rank_correlations(describe_hot_ops(captured, times, extracted, lambda task, workload: 0.0))
    assert list(correlations) == ["chat~coding"]
    assert -1.0 <= correlations["chat~coding"] <= 1.0


@given(st.lists(st.integers(0, 50), min_size=2, max_size=30, unique=True))
def test_rank_correlation_sees_order_only(values: list[int]) -> None:
    a = np.array(values, dtype=np.float64)
    assert spearman(a, np.exp(a / 10.0)) == pytest.approx(1.0)
    assert spearman(a, -a) == pytest.approx(-1.0)


def test_ties_share_their_rank() -> None:
    # The textbook case: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4.
    assert spearman(np.array([1.0, 2.0, 2.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0])) == pytest.approx(0.9486833)
    assert spearman(np.array([1.0, 1.0]), np.array([1.0, 2.0])) == 0.0
