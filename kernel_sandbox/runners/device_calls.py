"""DeviceCalls: calls on a device, launched or replayed from CUDA graphs, for both sides of a race alike.

Stands alone beside the runners in a sandbox: the standard library and torch, no import of the project, nor of what lies
beside it. A runner there knows gpu_device.py by another name than the project does, and would catch no exception of a
second one.
"""

import contextlib
from collections.abc import Callable, Iterator
from enum import IntFlag
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kernel_sandbox.runners.gpu_device import Device

NO_GRAPH = 2**64 - 1
"""What a runner answers instead of a time where no graph can hold the calls."""


class CallMode(IntFlag):
    """How calls are made."""

    PLAIN = 0
    """For their results, and under watch."""
    TIMED = 1
    """Without the watch over library calls, which takes time."""
    COLD = 2
    """What a call reads is not in L2; else calls follow each other with nothing between them."""
    GRAPH = 4
    """By replaying CUDA graphs, which were captured before."""
    WITHOUT_CALLS = 8
    """All but the calls: what everything around them takes."""
    HELD = 16
    """The device is kept busy until the calls are launched, so that what a launch takes does not show."""
    PROFILED = 32
    """A profiler that waits to be told sees these calls, without the copies and fills around them."""


class DeviceCalls:
    """The calls of one layout, launched or replayed from CUDA graphs."""

    def __init__(self, device: "Device", call: Callable[[int], None]) -> None:
        """`call` launches the call of an index and waits for nothing, as a capture needs it."""
        self._device = device
        self._call = call
        self._graphs: dict[range, Callable[[], None]] = {}

    def capture(self, first: int, count: int, how: CallMode, launch: Callable[[int], None]) -> None:
        """The graphs that `run` replays; makes the calls once before, by `launch`. Raises CaptureFailed."""
        for calls in _spans(first, count, how):
            if calls in self._graphs:
                continue
            for index in calls:
                launch(index)  # compiles, which no graph can hold

            def call_all(calls: range = calls) -> None:
                for index in calls:
                    self._call(index)

            self._graphs[calls] = self._device.capture(call_all).replay

    def run(self, first: int, count: int, how: CallMode, launch: Callable[[int], None]) -> int:
        """What `count` calls took by the device's clock, in ns; all streams are done. `launch` is `call` with what the
        caller wants around it."""
        moments = []
        for calls in _spans(first, count, how):
            self._device.settle_cache(is_cold=bool(how & CallMode.COLD))
            if how & CallMode.HELD:
                self._device.hold()
            began = self._device.mark()
            if not how & CallMode.WITHOUT_CALLS:
                with profiler_range(self._device) if how & CallMode.PROFILED else contextlib.nullcontext():
                    if how & CallMode.GRAPH:
                        self._graphs[calls]()
                    else:
                        for index in calls:
                            launch(index)
            moments.append((began, self._device.mark()))
        self._device.synchronise()
        return int(sum(ended.us_since(began) for began, ended in moments) * 1000)


def _spans(first: int, count: int, how: CallMode) -> list[range]:
    """Calls that follow each other with nothing between them."""
    together = 1 if how & CallMode.COLD else max(count, 1)
    return [range(start, start + together) for start in range(first, first + count, together)]


@contextlib.contextmanager
def profiler_range(device: "Device") -> Iterator[None]:
    """What is launched inside is for a profiler that was told to wait (`--profile-from-start off`)."""
    if device.torch_device.type != "cuda":
        yield
        return
    with torch.cuda.profiler.profile():
        yield
