"""Ceilings by the device's clock, on a device whose clock is a table."""

from collections.abc import Callable

import pytest

from compiler_agent.gpu_check.device_ceilings import measure_gpu_ceilings
from kernel_sandbox.runners.gpu_device import CaptureFailed
from tests.fake_gpu import FACTS, FakeGpu, FakeGraph


class SteadyGpu(FakeGpu):
    """Everything between two marks takes as long as the calls in between are many: it is told by launches of ours."""

    def capture(self, call: Callable[[], None]) -> FakeGraph:
        raise CaptureFailed("no graphs here")

    def mark(self):  # type: ignore[no-untyped-def]
        self.launch(lambda: None, us=100.0)
        return super().mark()


def test_measures_from_well_inside_l2_to_far_outside_it() -> None:
    ceilings = measure_gpu_ceilings(SteadyGpu(), matrix_size=32)
    sizes = [level.working_set_bytes for level in ceilings.copy_bandwidth]
    assert sizes == sorted(sizes)
    assert sizes[0] <= FACTS.l2_bytes // 8
    assert sizes[-1] >= 16 * FACTS.l2_bytes
    assert set(ceilings.flops_per_s) == {"bfloat16", "float16", "tf32"}


def test_a_rate_is_bytes_over_the_time_of_one_call() -> None:
    ceilings = measure_gpu_ceilings(SteadyGpu(), matrix_size=32)
    # A span takes 100 us (the mark's own launch) and, by it, five calls fit a sample.
    level = ceilings.copy_bandwidth[0]
    assert level.bytes_per_s == pytest.approx(level.working_set_bytes / 20e-6, rel=0.2)
    assert ceilings.flops_per_s["bfloat16"] == pytest.approx(2 * 32**3 / 20e-6, rel=0.2)


def test_what_does_not_fit_a_measured_level_comes_from_memory() -> None:
    ceilings = measure_gpu_ceilings(SteadyGpu(), matrix_size=32)
    assert ceilings.bytes_per_s(1 << 60) == ceilings.memory_bytes_per_s()
    assert ceilings.bytes_per_s(1) == ceilings.copy_bandwidth[0].bytes_per_s
