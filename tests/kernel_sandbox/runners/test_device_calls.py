"""Calls on the fake of a GPU: what lies inside a profiler's range, and what does not."""

import contextlib
from collections.abc import Callable, Iterator

import pytest
import torch

from kernel_sandbox.runners.device_calls import CallMode, DeviceCalls
from tests.fake_gpu import FakeGpu, FakeGraph


class Noting(FakeGpu):
    """What is done on it, in order."""

    def __init__(self) -> None:
        super().__init__(torch_device=torch.device("cuda"))
        self.done: list[str] = []

    def settle_cache(self, *, is_cold: bool) -> None:
        self.done.append("settle")
        super().settle_cache(is_cold=is_cold)

    def hold(self) -> None:
        self.done.append("hold")
        super().hold()

    def capture(self, call: Callable[[], None]) -> FakeGraph:
        return NotingGraph(self, super().capture(call).works)


class NotingGraph(FakeGraph):
    gpu: Noting

    def replay(self) -> None:
        self.gpu.done.append("calls")
        super().replay()


@pytest.mark.parametrize("form", [CallMode.PLAIN, CallMode.GRAPH])
def test_a_profiler_that_waits_sees_the_calls_alone(form: CallMode, monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = Noting()

    @contextlib.contextmanager
    def profile() -> Iterator[None]:
        gpu.done.append("on")
        yield
        gpu.done.append("off")

    def call(index: int) -> None:
        gpu.launch(lambda: None, us=5.0)

    def launch(index: int) -> None:
        gpu.done.append("calls")
        call(index)

    monkeypatch.setattr(torch.cuda.profiler, "profile", profile)
    calls = DeviceCalls(gpu, call)
    how = form | CallMode.COLD | CallMode.HELD
    calls.capture(0, 2, how, launch)
    gpu.done.clear()
    calls.run(0, 2, how | CallMode.PROFILED, launch)
    assert gpu.done == ["settle", "hold", "on", "calls", "off"] * 2
    gpu.done.clear()
    calls.run(0, 2, how, launch)
    assert gpu.done == ["settle", "hold", "calls"] * 2
