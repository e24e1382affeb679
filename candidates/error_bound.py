"""ErrorBound of a task, derived from the error of the PyTorch op itself, and what it allows each element."""

from collections.abc import Iterator

import numpy as np
import torch

from candidates.inputs import Distribution, draw_every_kind
from candidates.reference import run_oracle, run_reference
from candidates.task import ErrorBound, KernelTask

DERIVATION_SEED = 20_231_116  # fixed, so that one op on one torch version always has one bound
CANCELLED = 1e-9
"""A row this much smaller than the output usually is holds nothing but what is left of a cancellation."""


def derive_error_bound(task: KernelTask) -> ErrorBound:
    """The worst |torch - exact| / scale over all workloads and distributions; `task.error_bound` is not read.

    Raises ValueError where torch's own error is as large as its result: nothing could be told from noise.
    """
    cancelled_below, scaled_error, cancelled_error = 0.0, 0.0, 0.0
    for distribution, exact, got in _own_results(task):
        scale = row_scale(exact)
        if distribution is Distribution.NORMAL:  # comes first
            cancelled_below = max(cancelled_below, CANCELLED * float(scale.median()))
        error = (got.double() - exact).abs()
        is_cancelled = (scale < cancelled_below).expand_as(error)
        is_finite = torch.isfinite(error)
        scaled_error = max(scaled_error, _largest((error / scale)[is_finite & ~is_cancelled]))
        cancelled_error = max(cancelled_error, _largest(error[is_finite & is_cancelled]))
    if scaled_error >= 0.1:
        raise ValueError(f"torch's own result of {task.op} is off by {scaled_error:.2g} of its scale: no bound tells")
    return ErrorBound(scaled_error=scaled_error, cancelled_below=cancelled_below, cancelled_error=cancelled_error)


def allowed_error(bound: ErrorBound, exact: torch.Tensor, working_type: torch.dtype) -> torch.Tensor:
    """How far each element may lie from `exact` (float64)."""
    scale = row_scale(exact)
    relative = torch.where(scale < bound.cancelled_below, bound.cancelled_error, bound.scaled_error * scale)
    return bound.factor * relative + _ulp(exact, working_type)


def row_scale(exact: torch.Tensor) -> torch.Tensor:
    """The largest finite |exact| of each row (last dim), kept at least the smallest normal float32."""
    magnitude = torch.where(torch.isfinite(exact), exact.abs(), torch.zeros_like(exact))
    largest = magnitude.amax(dim=-1, keepdim=True) if exact.dim() else magnitude
    return largest.clamp_min(torch.finfo(torch.float32).tiny)


def _own_results(task: KernelTask) -> Iterator[tuple[Distribution, torch.Tensor, torch.Tensor]]:
    """Exact and torch's value of every floating output, for every workload and distribution."""
    rng = np.random.default_rng(DERIVATION_SEED)
    for workload in task.workloads:
        for distribution, inputs in draw_every_kind(task, workload, rng):
            exact, got = run_oracle(task, inputs), run_reference(task, inputs)
            for name, value in exact.items():
                if value.is_floating_point():
                    yield distribution, value, got[name]


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _ulp(exact: torch.Tensor, working_type: torch.dtype) -> torch.Tensor:
    """The spacing of the working type's numbers at each |exact|."""
    kind = torch.finfo(working_type)
    exponent = torch.frexp(exact.abs().clamp_min(kind.tiny)).exponent - 1
    return torch.ldexp(torch.full_like(exact, kind.eps), exponent)
