"""ErrorBound of a task, derived from the error of the PyTorch op itself."""

import numpy as np
import torch

from candidates.inputs import Distribution, draw_input
from candidates.reference import run_oracle, run_reference
from candidates.task import ErrorBound, InputRole, KernelTask

DERIVATION_SEED = 20_231_116  # fixed, so that one op on one torch version always has one bound


def derive_error_bound(task: KernelTask) -> ErrorBound:
    """The worst |torch - exact| / scale over all workloads and distributions; `task.error_bound` is not read."""
    rng = np.random.default_rng(DERIVATION_SEED)
    worst = 0.0
    for workload in task.workloads:
        # Parameters look the same under every distribution; drawing a large one seven times takes seconds.
        parameters = {
            spec.name: draw_input(spec, workload.axes, Distribution.NORMAL, rng)
            for spec in task.inputs_of(InputRole.PARAMETER)
        }
        others = [spec for spec in task.inputs if spec.name not in parameters]
        for distribution in Distribution:
            drawn = {spec.name: draw_input(spec, workload.axes, distribution, rng) for spec in others}
            inputs = parameters | drawn
            exact, got = run_oracle(task, inputs), run_reference(task, inputs)
            for name, value in exact.items():
                if not value.is_floating_point():
                    continue
                errors = (got[name].double() - value).abs() / row_scale(value)
                finite_errors = errors[torch.isfinite(errors)]
                worst = max(worst, float(finite_errors.max())) if finite_errors.numel() else worst
    return ErrorBound(scaled_error=worst)


def row_scale(exact: torch.Tensor) -> torch.Tensor:
    """The largest finite |exact| of each row (last dim), kept at least the smallest normal float32."""
    magnitude = torch.where(torch.isfinite(exact), exact.abs(), torch.zeros_like(exact))
    largest = magnitude.amax(dim=-1, keepdim=True) if exact.dim() else magnitude
    return largest.clamp_min(torch.finfo(torch.float32).tiny)
