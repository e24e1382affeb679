import pytest
from hypothesis import given
from hypothesis import strategies as st

from candidates.pass_times import PassTimes
from traces.model_calls import ModelCall

PASSES = st.builds(
    ModelCall, batch=st.integers(1, 16), tokens=st.sampled_from([1, 1, 7, 64, 512]), context=st.integers(0, 4000)
)


@given(st.dictionaries(PASSES, st.floats(1.0, 1e7), min_size=1, max_size=8), PASSES)
def test_measured_passes_keep_their_time_and_others_are_positive(
    measured: dict[ModelCall, float], other: ModelCall
) -> None:
    times = PassTimes(measured)
    for call, time_us in measured.items():
        assert times.estimate_us(call) == pytest.approx(time_us, rel=1e-3)
    assert times.estimate_us(other) > 0


def test_prefill_time_grows_with_its_tokens() -> None:
    measured = {ModelCall(batch=1, tokens=tokens, context=0): 100.0 + tokens for tokens in (16, 128, 512)}
    estimate = PassTimes(measured).estimate_us(ModelCall(batch=1, tokens=256, context=0))
    assert estimate == pytest.approx(356.0, rel=0.15)


def test_decode_is_not_estimated_from_prefill_where_it_was_measured() -> None:
    decode, prefill = ModelCall(batch=4, tokens=1, context=100), ModelCall(batch=1, tokens=4, context=100)
    times = PassTimes({decode: 10.0, prefill: 1000.0})
    assert times.estimate_us(ModelCall(batch=4, tokens=1, context=110)) == pytest.approx(10.0, rel=0.1)


def test_nothing_measured_is_refused() -> None:
    with pytest.raises(ValueError, match="no forward pass"):
        PassTimes({})
