"""Best rates of a GPU: copies at several working sets, and matrix products of PyTorch's library."""

import contextlib
import time
from collections.abc import Callable, Iterator

import torch

from candidates.device import BandwidthCeiling
from compiler_agent.gpu_check.results import GpuCeilings
from kernel_sandbox.runners.gpu_device import CaptureFailed, Device

SAMPLES = 15
SAMPLE_US = 500.0
MOST_CALLS = 200
MATRIX_SIZE = 8192
"""Large enough for the rate that libraries reach at best (roughly; GPUs differ in which size that is)."""
_SMALLEST_SHARE_OF_L2, _LARGEST_OVER_L2 = 1 / 8, 16


def measure_gpu_ceilings(
    device: Device, *, matrix_size: int = MATRIX_SIZE, deadline_s: float = float("inf")
) -> GpuCeilings:
    """The best of SAMPLES at every point; fewer past the deadline, never none. Raises DeviceFault."""
    copies = tuple(
        BandwidthCeiling(
            working_set_bytes=size,
            bytes_per_s=1e6 * size / _best_us(device, _copy(device, size), deadline_s),
        )
        for size in _working_sets(device)
    )
    flops = {}
    for name in ("bfloat16", "float16", "tf32"):
        us = _best_us(device, _multiply(device, name, matrix_size), deadline_s)
        flops[name] = 1e6 * 2 * matrix_size**3 / us
    return GpuCeilings(copy_bandwidth=copies, flops_per_s=flops)


def _working_sets(device: Device) -> Iterator[int]:
    """Of source and destination together: well inside L2, about it, and far outside."""
    size = int(device.facts.l2_bytes * _SMALLEST_SHARE_OF_L2)
    while size <= device.facts.l2_bytes * _LARGEST_OVER_L2:
        yield size // 8 * 8
        size *= 2


def _copy(device: Device, working_set_bytes: int) -> Callable[[], object]:
    source = torch.ones(working_set_bytes // 8, dtype=torch.int32, device=device.torch_device)
    destination = torch.empty_like(source)
    return lambda: destination.copy_(source)


def _multiply(device: Device, name: str, size: int) -> Callable[[], object]:
    kind = torch.float32 if name == "tf32" else getattr(torch, name)
    left = torch.randn(size, size, device=device.torch_device).to(kind)
    right = torch.randn(size, size, device=device.torch_device).to(kind)

    def call() -> object:
        # For this product alone, whatever the process is set to.
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = name == "tf32"
        try:
            return left @ right
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    return call


def _best_us(device: Device, call: Callable[[], object], deadline_s: float) -> float:
    device.settle_cache(is_cold=False)
    call()
    calls = max(1, min(MOST_CALLS, int(SAMPLE_US / max(_span_us(device, call), 0.1))))

    def call_all() -> None:
        for _ in range(calls):
            call()

    # From a graph: what lies in L2 is copied faster than a host launches.
    run: Callable[[], object] = call_all
    with contextlib.suppress(CaptureFailed):
        run = device.capture(call_all).replay
    best = float("inf")
    for _ in range(SAMPLES):
        best = min(best, _span_us(device, run) / calls)
        if time.monotonic() > deadline_s:
            break
    return max(best, 1e-3)


def _span_us(device: Device, run: Callable[[], object]) -> float:
    began = device.mark()
    run()
    return device.mark().us_since(began)
