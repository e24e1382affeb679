"""The part of a kernel's test that compares speeds; `generated_test` puts what follows `# Speed` into the file."""

# What it imports from other modules must be in `kernel_check` too: only imports of whole modules go along.

import importlib.util
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from candidates.pull_requests.kernel_check import (
    CASE,
    Axes,
    bind,
    device_of_kernel,
    draw_inputs,
    guarded,
    load_kernel,
    load_reference,
    name_of,
)

# Speed

SLOWEST = 0.8
"""Of PyTorch's speed, where it was measured: below that it is no noise. Elsewhere speed is only reported."""


def is_where_it_was_measured() -> bool:
    """A kernel is faster on the device that it was written for; elsewhere it may lose, and says nothing by it."""
    return bool(device_name() == CASE["device"])


def device_name() -> str:
    """As this project names it: two steppings of one model may differ in speed."""
    if CASE["language"] != "cpp":
        gpu = torch.cuda.get_device_properties(torch.cuda.current_device())
        return f"{gpu.name}, {gpu.total_memory >> 30} GiB"
    facts: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        name, _, value = line.partition(":")
        facts.setdefault(name.strip(), value.strip())
    if "model name" not in facts:
        return f"{platform.machine()} implementer {facts.get('CPU implementer')} part {facts.get('CPU part')}"
    family, model, stepping = (facts.get(name) for name in ("cpu family", "model", "stepping"))
    return f"{facts['model name']} family {family} model {model} stepping {stepping}"


@pytest.mark.skipif(importlib.util.find_spec("pytest_benchmark") is None, reason="pytest-benchmark is not installed")
@pytest.mark.parametrize("axes", CASE.get("workloads", []), ids=name_of)
def test_speed(axes: Axes, request: pytest.FixtureRequest) -> None:
    if CASE["language"] != "cpp" and not torch.cuda.is_available():
        pytest.skip("speed needs the device")
    benchmark = request.getfixturevalue("benchmark")
    torch.set_num_threads(CASE["threads"])
    os.environ["OMP_NUM_THREADS"] = str(CASE["threads"])
    inputs = draw_inputs(axes, "normal")
    tensors = {spec["name"]: guarded(spec, axes, 0)[0] for spec in (*CASE["inputs"], *CASE["outputs"])}
    for name, value in inputs.items():
        tensors[name].copy_(value)
    arguments = [tensors[spec["name"]] for spec in CASE["inputs"]]
    reference, kernel = load_reference(CASE["reference"]), bind(load_kernel(), tensors, axes)

    def pytorch() -> None:
        with torch.inference_mode():
            reference(*arguments)

    if not benchmark.enabled:
        benchmark(kernel)
        return
    benchmark.group = f"{CASE['op']} {name_of(axes)}"
    ratio = paired_ratio(kernel, pytorch)
    benchmark.extra_info["speedup_over_eager"] = ratio
    benchmark(kernel)
    if is_where_it_was_measured():
        assert ratio >= SLOWEST, f"{ratio:.2f} times as fast as PyTorch eager on the device that it was measured on"


def paired_ratio(kernel: Callable[[], None], pytorch: Callable[[], None]) -> float:
    """Median over pairs of PyTorch's time over the kernel's; each side is timed beside the other."""

    def elapsed(function: Callable[[], None], calls: int) -> float:
        began = time.perf_counter()
        for _ in range(calls):
            function()
        if device_of_kernel() == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    for function in (kernel, pytorch):
        elapsed(function, 3)
    once = max(elapsed(kernel, 1), elapsed(pytorch, 1), 1e-7)
    calls = max(1, round(2e-3 / once))
    ratios = []
    for pair in ((kernel, pytorch), (pytorch, kernel)) * 10:
        times = {function: elapsed(function, calls) for function in pair}
        ratios.append(times[pytorch] / times[kernel])
    return statistics.median(ratios)
