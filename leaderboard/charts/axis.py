"""Axes: where a value lies on the sheet, and at which values ticks read well. Linear, logarithmic, and of time."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

LEAST, MOST = 1e-300, 1e300
"""Beyond these a ratio is drawn as if it were at them: sums of their logarithms and powers stay finite."""

WIDEST_LINEAR = 4.0
"""Ratio of ends from which an axis of speedups is logarithmic."""

WIDEST_OF_TWOS = 1000.0

STEPS_S = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 86400, 2 * 86400, 7 * 86400, 14 * 86400)
MONDAY = datetime(2001, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """Values from low to high, drawn from start to end; start may be the greater, as on an axis that points up."""

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def __post_init__(self) -> None:
        if not (self.low < self.high and (self.low > 0 or not self.is_log)):
            raise ValueError(f"no axis from {self.low} to {self.high}, logarithmic: {self.is_log}")

    def place(self, value: float) -> float:
        """Where the value is drawn; one beyond an end is drawn at that end."""
        inside = min(max(value, self.low), self.high)
        low, high = self.low, self.high
        if self.is_log:
            low, high, inside = math.log(low), math.log(high), math.log(inside)
        return self.start + (self.end - self.start) * (inside - low) / (high - low)

    def speedup_ticks(self, most: int) -> list[float]:
        """Powers of two, which halves and doubles are read by; of ten where those would be too many to read."""
        return self.ticks(most, base=10 if self.high / self.low > WIDEST_OF_TWOS else 2)

    def ticks(self, most: int, base: int = 10) -> list[float]:
        if self.is_log:
            return log_ticks(self.low, self.high, most, base)
        return linear_ticks(self.low, self.high, most)


def linear_ticks(low: float, high: float, most: int) -> list[float]:
    """At most `most` + 1 multiples of 1, 2 or 5 times a power of ten."""
    rough = (high - low) / max(1, most)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 5, 10, 20) if power * factor >= rough * 0.999)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    # Rounded by the step's digits, as 3 * 0.1 is not 0.3.
    return [float(f"{multiple * step:.12g}") for multiple in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int, base: int = 10) -> list[float]:
    """Powers of the base, or of a power of it; between few powers of ten, 1, 2 and 5 times those."""
    first = math.ceil(math.log(low, base) - 1e-9)
    last = math.floor(math.log(high, base) + 1e-9)
    if base == 10 and last - first < 3:
        decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        found = [factor * 10.0**decade for decade in decades for factor in (1, 2, 5)]
        inside = [value for value in found if low * 0.999 <= value <= high * 1.001]
        if 1 < len(inside) <= most + 1:
            return inside
        if last <= first:
            return linear_ticks(low, high, most)
    step = max(1, math.ceil((last - first) / max(1, most)))
    # From a multiple of the step, so that 1 is among the ticks.
    return [float(base) ** power for power in range(math.ceil(first / step) * step, last + 1, step)]


def usable_ratio(value: float | None) -> float | None:
    """The value where it can be drawn as a ratio, drawn into bounds; None for what is none, infinite or not above 0."""
    if value is None or not math.isfinite(value) or value <= 0:
        return None
    return bound_ratio(value)


def bound_ratio(value: float) -> float:
    return min(max(value, LEAST), MOST)


def ratio_axis(values: Iterable[float], start: float, end: float, least_margin: float = 0.3) -> Axis:
    """A logarithmic axis of usable ratios, with a margin of at least so many decades on both sides."""
    found = [math.log10(value) for value in values]
    low, high = min(found), max(found)
    margin = max(0.05 * (high - low), least_margin)
    return Axis(
        low=10 ** max(low - margin, -305), high=10 ** min(high + margin, 305), start=start, end=end, is_log=True
    )


def speedup_axis(estimates: Iterable[float | None], bounds: Iterable[float | None], start: float, end: float) -> Axis:
    """An axis with every estimate and 1.0 on it, and bounds up to a factor of 4 beyond: a far one would squeeze all.

    Logarithmic where its ends are more than a factor of 4 apart.
    """
    drawn = [value for value in map(usable_ratio, estimates) if value is not None] + [1.0]
    ends = [value for value in map(usable_ratio, bounds) if value is not None]
    low = max(min([*drawn, *ends]), min(drawn) / WIDEST_LINEAR)
    high = min(max([*drawn, *ends]), max(drawn) * WIDEST_LINEAR)
    if high / low > WIDEST_LINEAR:
        return ratio_axis((low, high), start, end, least_margin=0.04)
    margin = max(0.06 * (high - low), 0.04)
    return Axis(low=low - margin, high=high + margin, start=start, end=end)


def time_ticks(low: datetime, high: datetime, most: int) -> list[tuple[datetime, str]]:
    """Whole minutes, hours, days, weeks, months or years in UTC, each with its label; the beginning where none of them
    is between."""
    span_s = (high - low).total_seconds()
    step_s = next((step for step in STEPS_S if step * most >= span_s), None)
    if step_s is None:
        return month_ticks(low, high, most)
    first = math.ceil((low - MONDAY).total_seconds() / step_s)
    last = math.floor((high - MONDAY).total_seconds() / step_s)
    found = [MONDAY + timedelta(seconds=step_s * multiple) for multiple in range(first, last + 1)]
    if not found:
        return [(low, f"{low.day} {low:%b} {low:%H:%M}")]
    return [(at, f"{at.day} {at:%b}" if step_s >= 86400 or at.hour + at.minute == 0 else f"{at:%H:%M}") for at in found]


def month_ticks(low: datetime, high: datetime, most: int) -> list[tuple[datetime, str]]:
    months_low, months_high = low.year * 12 + low.month - 1, high.year * 12 + high.month - 1
    steps = (1, 2, 3, 6, 12, 24, 60, 120, 240, 600, 1200, 6000, 12000, 120000)
    step = next(step for step in steps if step * max(1, most) >= months_high - months_low)
    found = [
        datetime(months // 12, months % 12 + 1, 1, tzinfo=UTC)
        for months in range(math.ceil(months_low / step) * step, months_high + 1, step)
        if months >= 12
    ]
    return [(at, str(at.year) if step >= 12 else f"{at:%b} {at.year}") for at in found if low <= at <= high]
