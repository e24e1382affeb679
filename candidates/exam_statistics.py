"""Statistics of an exam: shares with their intervals, the geometric mean of speedups, both over few tasks."""

import math
import random
from collections.abc import Sequence

from candidates.measurement import Interval

_Z = 1.959963984540054
"""Of the normal distribution, 95 % two-sided."""
_MISSED = 0.05
RESAMPLES = 2000


def wilson_interval(count: int, of: int) -> Interval:
    """95 % score interval of a binomial share (Wilson 1927); from 0 to 1 where nothing was tried."""
    if not 0 <= count <= of:
        raise ValueError(f"{count} of {of}")
    if of == 0:
        return Interval(0.0, 1.0)
    share, z2 = count / of, _Z * _Z
    middle = (share + z2 / (2 * of)) / (1 + z2 / of)
    half = _Z / (1 + z2 / of) * math.sqrt(share * (1 - share) / of + z2 / (4 * of * of))
    # Rounding must leave neither a share of all nor one of none outside of its interval.
    return Interval(min(share, max(0.0, middle - half)), max(share, min(1.0, middle + half)))


def geometric_mean(values: Sequence[float]) -> float:
    """Of a non-empty sequence of positive numbers."""
    if not values or min(values) <= 0:
        raise ValueError(f"no geometric mean of {list(values)}")
    return math.exp(math.fsum(map(math.log, values)) / len(values))


def bootstrap_interval(values: Sequence[float], seed: int = 0) -> Interval:
    """95 % percentile interval of the geometric mean, values drawn again with replacement (Efron 1979).

    The same values in any order and the same seed, the same interval. One value gives itself: what one task says of
    others is unknown, and the number of values has to be told beside it.
    """
    chance = random.Random(seed)
    ordered = sorted(values)
    means = sorted(geometric_mean(chance.choices(ordered, k=len(ordered))) for _ in range(RESAMPLES))
    cut = round(RESAMPLES * _MISSED / 2)
    return Interval(means[cut], means[RESAMPLES - 1 - cut])


def count_above(speedups: Sequence[float | None], p: float) -> int:
    """How many are above `p`; None, a task without a right kernel, never is. Over all tasks: fast_p (KernelBench)."""
    return sum(speedup is not None and speedup > p for speedup in speedups)
