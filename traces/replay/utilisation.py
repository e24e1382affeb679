"""scale_arrivals: the factor on a trace's arrival times that makes the modelled device busy for a stated share of it.

A trace of a data centre would drown a laptop, and one of a quiet afternoon would leave a server idle: either way the
steps would not be those of a device that is used as it was meant to be.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

MOST_REPLAYS = 12
CLOSE_ENOUGH = 0.01
"""Of the utilisation itself."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """How one replay kept the device busy."""

    arrival_scale: float
    busy_s: float
    span_s: float
    """From the first arrival to the last token."""
    arrival_span_s: float
    """From the first arrival to the last, scaled."""

    @property
    def utilisation(self) -> float:
        return self.busy_s / self.span_s


SomeLoad = TypeVar("SomeLoad", bound=Load)


def scale_arrivals(load_at: Callable[[float], SomeLoad], target: float) -> SomeLoad:
    """Searches the arrival scale at which utilisation, which falls with it, is `target`, in (0, 1].

    Deterministic, at most MOST_REPLAYS calls of `load_at`, each a replay: first the scale grows or shrinks until the
    target lies between two, then the gap closes by the Illinois variant of false position in log scale. Where the
    target cannot be met (all requests arrive at once, say) the closest load seen is the result.
    """
    if not 0 < target <= 1:
        raise ValueError(f"utilisation {target} is not above 0 and at most 1")
    replays = 1
    closest = latest = load_at(1.0)

    def excess(log_scale: float) -> float:
        nonlocal replays, closest, latest
        replays += 1
        latest = load_at(math.exp(log_scale))
        if abs(latest.utilisation - target) < abs(closest.utilisation - target):
            closest = latest
        return latest.utilisation - target

    def goes_on(value: float) -> bool:
        return abs(value) > CLOSE_ENOUGH and replays < MOST_REPLAYS

    low, low_value = 0.0, latest.utilisation - target
    high, high_value = low, low_value
    while goes_on(high_value) and low_value * high_value > 0 and latest.arrival_span_s > 0:
        low, low_value = high, high_value
        # As if a longer span left the busy time alone. It grows, batches being smaller then: reach further each time.
        reached = latest.busy_s / latest.arrival_span_s if low_value > 0 else latest.utilisation
        high = low + math.log(reached / target) * replays
        high_value = excess(high)
    if low_value * high_value > 0:
        return closest
    while goes_on(high_value):
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        value = excess(middle)
        if value * high_value < 0:
            low, low_value = high, high_value
        else:
            low_value /= 2
        high, high_value = middle, value
    return closest
