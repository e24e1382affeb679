import pytest
from hypothesis import given
from hypothesis import strategies as st

from traces.replay.utilisation import MOST_REPLAYS, Load, scale_arrivals


class ModelledDevice:
    """Serves a trace of `span_s`; busy time grows with the span like a power, as smaller batches make it."""

    def __init__(self, work_s: float, span_s: float, growth: float, tail_s: float) -> None:
        self.work_s, self.span_s, self.growth, self.tail_s = work_s, span_s, growth, tail_s
        self.replays = 0

    def load_at(self, arrival_scale: float) -> Load:
        self.replays += 1
        busy_s = self.work_s * max(1.0, arrival_scale * self.span_s / self.work_s) ** self.growth
        arrival_span_s = arrival_scale * self.span_s
        return Load(
            arrival_scale=arrival_scale,
            busy_s=busy_s,
            span_s=max(busy_s, arrival_span_s + self.tail_s),
            arrival_span_s=arrival_span_s,
        )


@given(
    work_s=st.floats(1.0, 1e6),
    span_s=st.floats(10.0, 1e5),
    growth=st.floats(0.0, 0.7),
    target=st.floats(0.3, 0.95),
)
def test_finds_the_scale_of_a_utilisation(work_s: float, span_s: float, growth: float, target: float) -> None:
    device = ModelledDevice(work_s, span_s, growth, tail_s=work_s / 100)
    load = scale_arrivals(device.load_at, target)
    assert load.utilisation == pytest.approx(target, abs=0.02)
    assert device.replays <= MOST_REPLAYS


def test_leaves_alone_what_fits_already() -> None:
    device = ModelledDevice(work_s=800, span_s=1_000, growth=0.0, tail_s=0)
    assert scale_arrivals(device.load_at, 0.8).arrival_scale == 1.0
    assert device.replays == 1


def test_requests_that_come_all_at_once_cannot_be_spread() -> None:
    device = ModelledDevice(work_s=800, span_s=0, growth=0.0, tail_s=0)
    load = scale_arrivals(device.load_at, 0.8)
    assert (load.arrival_scale, load.utilisation) == (1.0, 1.0)


@pytest.mark.parametrize("target", [0.0, -0.1, 1.01])
def test_rejects_a_utilisation_that_no_device_has(target: float) -> None:
    with pytest.raises(ValueError, match="utilisation"):
        scale_arrivals(ModelledDevice(1, 1, 0, 0).load_at, target)
