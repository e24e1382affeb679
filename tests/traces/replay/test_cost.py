import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.replay.cost import StepCostModel

COUNTS = st.integers(0, 10_000)
RATES = st.floats(1e-3, 1e6)
MODELS = st.builds(
    StepCostModel,
    weight_bytes=RATES,
    flops_per_token=RATES,
    attention_flops_per_pair=st.floats(0, 1e3),
    kv_bytes_per_token=st.floats(0, 1e3),
    flops_per_s=RATES,
    bandwidth_bytes_per_s=RATES,
    overhead_s=st.floats(0, 1),
)


def model(**changes: float) -> StepCostModel:
    plain = {
        "weight_bytes": 1_000,
        "flops_per_token": 2_000,
        "attention_flops_per_pair": 8,
        "kv_bytes_per_token": 4,
        "flops_per_s": 1_000,
        "bandwidth_bytes_per_s": 100,
    }
    return StepCostModel(**(plain | changes))


def test_decode_of_one_sequence_is_bound_by_reading_weights_and_context() -> None:
    assert model().seconds(0, 0, 1, 50) == (1_000 + 50 * 4) / 100


def test_prefill_is_bound_by_operations() -> None:
    pairs = 10 * 30 + (1 + 2 + 3 + 4 + 5 + 6 + 7 + 8 + 9 + 10)
    assert model().seconds(10, 30, 0, 0) == (10 * 2_000 + pairs * 8) / 1_000


def test_mixed_step_reads_the_weights_once() -> None:
    seconds = model(flops_per_s=1e12).seconds(10, 30, 2, 50)
    assert seconds == (1_000 + (30 + 10 + 50) * 4) / 100


def test_context_that_nothing_prefills_is_not_read() -> None:
    assert model().seconds(0, 500, 1, 50) == model().seconds(0, 0, 1, 50)


def test_every_step_pays_the_overhead() -> None:
    assert model(overhead_s=3).seconds(10, 0, 2, 9) == model().seconds(10, 0, 2, 9) + 3


@given(cost_model=MODELS, batch=st.integers(1, 300), context_total=COUNTS, steps=st.integers(0, 60))
def test_a_run_of_decodes_takes_as_long_as_its_steps(
    cost_model: StepCostModel, batch: int, context_total: int, steps: int
) -> None:
    one_by_one = sum(cost_model.seconds(0, 0, batch, context_total + batch * step) for step in range(steps))
    assert cost_model.decode_run_seconds(batch, context_total, steps) == pytest.approx(one_by_one, rel=1e-9)


@pytest.mark.parametrize(
    ("field", "value"), [("flops_per_s", 0), ("bandwidth_bytes_per_s", -1), ("overhead_s", -0.1), ("weight_bytes", -1)]
)
def test_rejects_impossible_figures(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must"):
        model(**{field: value})


def test_rejects_steps_that_take_no_time() -> None:
    with pytest.raises(ValueError, match="takes no time"):
        model(weight_bytes=0, flops_per_token=0, attention_flops_per_pair=0, kv_bytes_per_token=0)
