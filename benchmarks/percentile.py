"""percentile_ms: the one definition of a percentile that figures of these benchmarks have."""

import math
from collections.abc import Sequence


def percentile_ms(values_s: Sequence[float], share: float) -> float:
    """The least of them that at least so large a share does not exceed (nearest rank). ValueError: there is none."""
    if not values_s:
        raise ValueError(f"no values have a percentile of {share}")
    ordered_s = sorted(values_s)
    return round(1e3 * ordered_s[max(0, math.ceil(share * len(ordered_s)) - 1)], 1)
