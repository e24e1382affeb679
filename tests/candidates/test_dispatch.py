"""What serving charges a candidate."""

import pytest

from candidates.dispatch import HIT_SHARE, DispatchCost, measure_dispatch
from tests.candidates.serving_build.tiny_tasks import local_device


def test_a_hit_pays_for_the_misses_that_come_with_it() -> None:
    cost = DispatchCost(hit_us=3.0, miss_us=1.0)
    assert cost.per_hit_us(1.0) == 3.0
    assert cost.per_hit_us(0.5) == 4.0
    assert cost.per_hit_us(0.25) == 6.0
    assert 3.0 < cost.per_hit_us(HIT_SHARE) < 4.0


@pytest.mark.parametrize("share", [0.0, -0.1, 1.1])
def test_a_share_is_a_share(share: float) -> None:
    with pytest.raises(ValueError, match="hit share"):
        DispatchCost(hit_us=3.0, miss_us=1.0).per_hit_us(share)


def test_hits_and_misses_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the environment says of serving."""
    monkeypatch.setenv("COMPILER_AGENT_TRUSTED_KEYS", "0" * 64)
    monkeypatch.setenv("COMPILER_AGENT_SHADOW_ONE_IN", "1")
    cost = measure_dispatch(local_device())
    assert cost.hit_us > 0
    assert cost.miss_us >= 0
