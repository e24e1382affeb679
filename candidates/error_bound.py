"""ErrorBound of a task, derived from the error of the PyTorch op itself, and what it allows each element."""

from collections.abc import Iterator, Mapping

import numpy as np
import torch

from candidates.inputs import Distribution, draw_every_kind
from candidates.reference import run_oracle, run_reference
from candidates.task import ErrorBound, InputSpec, KernelTask
from candidates.weight_formats import WeightFormat

DERIVATION_SEED = 20_231_116  # fixed, so that one op on one torch version always has one bound
CANCELLED = 1e-9
"""A row this much smaller than the output usually is holds nothing but what is left of a cancellation."""
SMALL = 0.1
"""A row this much smaller than the output usually is may hold what is left of a cancellation: its error is then that of
what cancelled, which is no share of the row."""
SPREAD = 10.0
"""How much more than usual a row of any size may err where PyTorch does at inputs next to these: softmax of large
numbers is exact to many digits or to few, as its two largest happen to lie."""
# Fewer, or nearer, and torch is right at all of them by chance (docs/decisions/0006).
_NEIGHBOURS = 8
_STEPS = 4


def derive_error_bound(task: KernelTask) -> ErrorBound:
    """The worst |torch - exact| / scale over all workloads and distributions; `task.error_bound` is not read.

    Where a parameter may be kept in bfloat16, torch gets it rounded, and the bound is that much wider.

    Raises ValueError where torch's own error is as large as its result: nothing could be told from noise.
    """
    cancelled_below, scaled_error, cancelled_error = 0.0, 0.0, 0.0
    for distribution, inputs in _draw_all(task):
        for exact, got in _own_results(task, inputs).values():
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


def allowed_error(
    bound: ErrorBound, exact: torch.Tensor, working_type: torch.dtype, error_nearby: torch.Tensor | None = None
) -> torch.Tensor:
    """How far each element may lie from `exact` (float64).

    With `error_nearby`, of `find_errors_nearby`, a row may err as PyTorch does there: a small one no more than a row of
    the usual size may, any other no more than SPREAD times its own bound.
    """
    scale = row_scale(exact)
    relative = torch.where(scale < bound.cancelled_below, bound.cancelled_error, bound.scaled_error * scale)
    if error_nearby is not None:
        most = torch.where(is_small(bound, exact), bound.scaled_error * _usual_scale(bound), SPREAD * relative)
        relative = relative.maximum(error_nearby.minimum(most))
    return bound.factor * relative + _ulp(exact, working_type)


def is_small(bound: ErrorBound, exact: torch.Tensor) -> torch.Tensor:
    """Which rows may have cancelled: `[..., 1]`."""
    return row_scale(exact) < SMALL * _usual_scale(bound)


def find_errors_nearby(task: KernelTask, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The worst |torch - exact| in each row of each floating result, `[..., 1]`, over inputs next to `inputs`.

    Rows that nearly cancel are too rare for `derive_error_bound` to meet them all, so the op is asked here, where one
    was met. Not at `inputs` themselves: there its error may be none by chance.
    """
    generator = torch.Generator().manual_seed(DERIVATION_SEED)
    worst: dict[str, torch.Tensor] = {}
    for _ in range(_NEIGHBOURS):
        neighbours = {spec.name: _moved(inputs[spec.name], spec, generator) for spec in task.inputs}
        for name, (exact, got) in _own_results(task, neighbours).items():
            error = row_scale(got.double() - exact)
            worst[name] = error.maximum(worst.get(name, error))
    return worst


def row_scale(exact: torch.Tensor) -> torch.Tensor:
    """The largest finite |exact| of each row (last dim), kept at least the smallest normal float32."""
    magnitude = torch.where(torch.isfinite(exact), exact.abs(), torch.zeros_like(exact))
    largest = magnitude.amax(dim=-1, keepdim=True) if exact.dim() else magnitude
    return largest.clamp_min(torch.finfo(torch.float32).tiny)


def _draw_all(task: KernelTask) -> Iterator[tuple[Distribution, Mapping[str, torch.Tensor]]]:
    rng = np.random.default_rng(DERIVATION_SEED)
    for workload in task.workloads:
        yield from draw_every_kind(task, workload, rng)


def _own_results(task: KernelTask, inputs: Mapping[str, torch.Tensor]) -> dict[str, tuple[torch.Tensor, torch.Tensor]]:
    """Exact and torch's value of every floating result, by name; torch's of parameters as they may be kept."""
    kept = {
        spec.name: inputs[spec.name].bfloat16().float()
        for spec in task.inputs
        if spec.stored_as is WeightFormat.BFLOAT16
    }
    exact, got = run_oracle(task, inputs), run_reference(task, {**inputs, **kept})
    return {name: (value, got[name]) for name, value in exact.items() if value.is_floating_point()}


def _moved(tensor: torch.Tensor, spec: InputSpec, generator: torch.Generator) -> torch.Tensor:
    """Each element by up to `_STEPS` times its type's epsilon, in that type also where `tensor` is in float64."""
    if not tensor.is_floating_point():
        return tensor
    working_type = getattr(torch, spec.element_type.value)
    steps = torch.randint(-_STEPS, _STEPS + 1, tensor.shape, generator=generator, dtype=torch.float64)
    return tensor.to(torch.float64, copy=True).mul_(1.0 + torch.finfo(working_type).eps * steps).to(working_type)


def _usual_scale(bound: ErrorBound) -> float:
    return bound.cancelled_below / CANCELLED


def _largest(values: torch.Tensor) -> float:
    return float(values.max()) if values.numel() else 0.0


def _ulp(exact: torch.Tensor, working_type: torch.dtype) -> torch.Tensor:
    """The spacing of the working type's numbers at each |exact|."""
    kind = torch.finfo(working_type)
    exponent = torch.frexp(exact.abs().clamp_min(kind.tiny)).exponent - 1
    return torch.ldexp(torch.full_like(exact, kind.eps), exponent)
