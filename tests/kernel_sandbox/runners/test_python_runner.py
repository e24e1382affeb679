"""The runner's own logic on a GPU, on the fake of one: what a batch leaves, and what its time is made of."""

import pytest
import torch

from kernel_sandbox import arena
from kernel_sandbox.runners import device_slots
from kernel_sandbox.runners.device_calls import CallMode
from kernel_sandbox.runners.python_runner import OUTPUTS_BIT, Runner
from tests.fake_gpu import FakeGpu

SLOT = 1024
CALL = {
    "axes": ["rows"],
    "tensors": [
        {"role": role, "dtype": "float32", "shape": ["rows", 4], "dim_order": [0, 1], "allocated": ["rows", 4]}
        for role in ("activation", "output")
    ],
}


class Doubling:
    """A kernel of 5 us, more where its input is not in L2; a launch returns before it has run."""

    def __init__(self) -> None:
        self.calls = 0

    def call(self, device: FakeGpu, tensors: list[torch.Tensor], prepared: object, sizes: list[int]) -> None:
        x, y = tensors
        self.calls += 1
        device.launch(lambda: y.copy_(x * 2), us=5.0, reads=["x"])


def lay_out(calls: int, has_guards: bool = True) -> tuple[Runner, FakeGpu, torch.Tensor, torch.Tensor]:
    inputs, outputs = torch.zeros(8 * SLOT, dtype=torch.uint8), torch.zeros(8 * SLOT, dtype=torch.uint8)
    for index in range(calls):
        inputs[index * SLOT : index * SLOT + 16].view(torch.float32).copy_(torch.arange(4) + index)
    gpu = FakeGpu()
    runner = Runner({**CALL, "has_guards": has_guards}, inputs, outputs, gpu, Doubling())
    words = [word for index in range(calls) for word in (0, index * SLOT, index * SLOT | OUTPUTS_BIT)]
    runner.lay_out((0, 0, 1, 1, calls, 2, *words))
    return runner, gpu, inputs, outputs


def test_results_are_in_the_arena_once_they_are_copied_back() -> None:
    runner, gpu, _, outputs = lay_out(2)
    assert gpu.free_memory_is_poisoned
    runner.run(0, 2, CallMode.PLAIN)
    assert not outputs.any()
    runner.copy_back(0, 2)
    for index in range(2):
        left = outputs[index * SLOT : index * SLOT + 16].view(torch.float32)
        assert torch.equal(left, (torch.arange(4.0) + index) * 2)


def test_without_guards_nothing_is_allocated_but_the_tensors() -> None:
    runner, gpu, _, outputs = lay_out(2, has_guards=False)
    runner.run(0, 2, CallMode.TIMED | CallMode.PROFILED)
    runner.copy_back(0, 2)
    assert not gpu.allocations
    assert not gpu.free_memory_is_poisoned
    assert torch.equal(outputs[SLOT : SLOT + 16].view(torch.float32), (torch.arange(4.0) + 1) * 2)


@pytest.mark.parametrize(
    ("how", "least_us", "most_us"),
    [
        (CallMode.TIMED, 15.0, 80.0),
        (CallMode.TIMED | CallMode.COLD, 160.0, 180.0),
        (CallMode.TIMED | CallMode.WITHOUT_CALLS, 0.0, 1.0),
    ],
)
def test_what_calls_take_is_without_what_is_between_them(how: CallMode, least_us: float, most_us: float) -> None:
    runner, gpu, _, _ = lay_out(3)
    took_ns = runner.run(0, 3, how)
    assert least_us <= took_ns / 1000 <= most_us
    assert gpu.flushes == (3 if how & CallMode.COLD else 0)


def test_a_graph_is_captured_once_and_replayed_after() -> None:
    runner, _, _, outputs = lay_out(2)
    for _ in range(2):
        assert runner.capture(0, 2, CallMode.TIMED | CallMode.GRAPH) == 0
    after_capture = runner.kernel.calls
    assert not outputs.any()
    runner.run(0, 2, CallMode.TIMED | CallMode.GRAPH)
    assert (after_capture, runner.kernel.calls) == (4, 4)
    runner.copy_back(0, 2)
    assert torch.equal(outputs[SLOT : SLOT + 16].view(torch.float32), (torch.arange(4.0) + 1) * 2)


def test_a_graph_of_one_layout_computes_what_is_copied_in_later() -> None:
    runner, _, inputs, outputs = lay_out(2)
    runner.capture(0, 2, CallMode.TIMED | CallMode.GRAPH)
    inputs[SLOT : SLOT + 16].view(torch.float32).copy_(torch.full((4,), 7.0))
    runner.copy_in()
    runner.run(0, 2, CallMode.TIMED | CallMode.GRAPH)
    runner.copy_back(0, 2)
    assert torch.equal(outputs[SLOT : SLOT + 16].view(torch.float32), torch.full((4,), 14.0))


def test_a_held_device_hides_what_a_launch_takes() -> None:
    took_us = []
    for how in (CallMode.TIMED, CallMode.TIMED | CallMode.HELD):
        runner, gpu, _, _ = lay_out(1)
        gpu.launch_us = 20.0
        runner.run(0, 1, how)
        gpu.synchronise()
        took_us.append(runner.run(0, 1, how) / 1000)
    assert took_us == [pytest.approx(25.0), pytest.approx(5.0)]


def test_guards_are_those_of_the_judge() -> None:
    assert device_slots.GUARD_BYTES == arena.GUARD_BYTES
