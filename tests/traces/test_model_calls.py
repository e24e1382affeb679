import pytest

from traces.model_calls import CallRate, ModelCall, model_calls
from traces.replay.step import EngineStep


def step(*, prefill: int = 0, decode: int = 0, count: float = 1.0, **shares: float) -> EngineStep:
    return EngineStep(
        prefill_tokens=prefill,
        prefill_context=4 * bool(prefill),
        decode_batch=decode,
        decode_context=9 * bool(decode),
        count=count,
        duration_s=1.0,
        share_by_class=shares,
    )


def test_a_mixed_step_is_one_prefill_and_one_decode_pass() -> None:
    calls = model_calls([step(prefill=7, decode=3, count=2.0)], span_s=1800.0)
    assert set(calls) == {ModelCall(batch=1, tokens=7, context=4), ModelCall(batch=3, tokens=1, context=9)}
    assert {rate.per_hour for rate in calls.values()} == {4.0}


def test_equal_passes_of_several_steps_add_up_by_class() -> None:
    steps = [step(decode=2, count=10.0, chat=1.0), step(decode=2, count=30.0, chat=0.5, coding=0.5)]
    (rate,) = model_calls(steps, span_s=3600.0).values()
    assert rate == CallRate(per_hour=40.0, per_hour_by_class={"chat": 25.0, "coding": 15.0})


def test_a_span_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="span must be positive"):
        model_calls([step(decode=1)], span_s=0.0)
