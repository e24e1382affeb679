"""scale_arrivals: the factor on a trace's arrival times that makes the modelled device busy for a stated share of it.

A trace of a data centre would drown a laptop, and one of a quiet afternoon would leave a server idle: either way the
steps would not be those of a device that is used as it was meant to be.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass

MOST_REPLAYS = 12
CLOSE_ENOUGH = 0.005
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


def scale_arrivals(load_at: Callable[[float], Load], target: float) -> Load:
    """Searches the arrival scale at which utilisation, which falls with it, is `target`, in (0, 1].

    Deterministic, at most MOST_REPLAYS calls of `load_at`, each a replay: first the scale grows or shrinks until the
    target lies between two, then the gap closes by the Illinois variant of false position in log scale. Where the
    target cannot be met (all requests arrive at once, say) the closest load seen is the result.
    """
    if not 0 < target <= 1:
        raise ValueError(f"utilisation {target} is not above 0 and at most 1")
    seen: list[Load] = []

    def excess(log_scale: float) -> float:
        seen.append(load_at(math.exp(log_scale)))
        return seen[-1].utilisation - target

    log_scale = 0.0
    value = excess(log_scale)
    while seen[-1].arrival_span_s > 0 and abs(value) > CLOSE_ENOUGH and len(seen) < MOST_REPLAYS:
        load = seen[-1]
        # As if a longer span left the busy time alone. It grows, batches being smaller then: reach further each time.
        reached = load.busy_s / load.arrival_span_s if value > 0 else load.utilisation
        other = log_scale + math.log(reached / target) * len(seen)
        other_value = excess(other)
        if value * other_value < 0:
            _close_in(excess, (log_scale, value), (other, other_value), seen)
            break
        log_scale, value = other, other_value
    return min(seen, key=lambda load: abs(load.utilisation - target))


def _close_in(
    excess: Callable[[float], float], left: tuple[float, float], right: tuple[float, float], seen: list[Load]
) -> None:
    """False position between two log scales whose excesses differ in sign; leaves its trail in `seen`."""
    (low, low_value), (high, high_value) = left, right
    value = high_value
    while abs(value) > CLOSE_ENOUGH and len(seen) < MOST_REPLAYS:
        middle = (low * high_value - high * low_value) / (high_value - low_value)
        value = excess(middle)
        if value * high_value < 0:
            low, low_value = high, high_value
        else:
            low_value /= 2
        high, high_value = middle, value
