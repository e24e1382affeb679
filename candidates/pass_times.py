"""PassTimes: time as a function of the forward pass, interpolated in log space between measured passes."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from traces.model_calls import ModelCall

Vector = npt.NDArray[np.float64]

_PRIOR_SLOPES = np.array([0.5, 1.0, 0.0])
"""Of log time over log batch, log tokens and log tokens read, where too few passes were measured to tell."""
_PRIOR_STRENGTH = 0.5


class PassTimes:
    """Exact at measured passes. Between them: a linear fit of log time plus the residuals of the passes nearby.

    Prefill and decode are fitted apart where both were measured: they run other kernels.
    """

    def __init__(self, measured_us: Mapping[ModelCall, float]) -> None:
        """Raises ValueError where nothing was measured."""
        if not measured_us:
            raise ValueError("no forward pass was measured: times cannot be interpolated")
        self._fits = {
            is_decode: _Fit({call: us for call, us in measured_us.items() if call.is_decode is is_decode})
            for is_decode in {call.is_decode for call in measured_us}
        }

    def estimate_us(self, call: ModelCall) -> float:
        fit = self._fits.get(call.is_decode) or next(iter(self._fits.values()))
        return fit.estimate_us(call)


class _Fit:
    def __init__(self, measured_us: Mapping[ModelCall, float]) -> None:
        self._points = np.array([_features(call) for call in measured_us])
        log_times = np.log(np.array(list(measured_us.values())))
        self._center, self._level = self._points.mean(axis=0), float(log_times.mean())
        X = self._points - self._center
        unexplained = log_times - self._level - X @ _PRIOR_SLOPES
        ridge = X.T @ X + _PRIOR_STRENGTH * np.eye(X.shape[1])
        # More work never takes less time; a slope that says so comes from noise.
        self._slopes = np.maximum(0.0, _PRIOR_SLOPES + np.linalg.solve(ridge, X.T @ unexplained))
        self._residuals = log_times - self._line(self._points)

    def estimate_us(self, call: ModelCall) -> float:
        point = _features(call)
        nearness = 1.0 / (np.square(self._points - point).sum(axis=1) + 1e-12)
        residual = float(nearness @ self._residuals / nearness.sum())
        return float(np.exp(self._line(point[np.newaxis])[0] + residual))

    def _line(self, points: Vector) -> Vector:
        line: Vector = self._level + (points - self._center) @ self._slopes
        return line


def _features(call: ModelCall) -> Vector:
    return np.log(np.array([call.batch, call.tokens, call.tokens_read], dtype=np.float64))
