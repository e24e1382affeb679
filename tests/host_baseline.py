"""PyTorch's process of a race on a GPU, with the CPU in the GPU's place: `python tests/host_baseline.py IN OUT GPU`.

A GPU named `GPU-faults` faults at every capture, `GPU-compiled-N` where it was waited for N times after a compilation,
`GPU-compiled-N-once-FILE` only where there is no such file yet, and `GPU-faults-late` tells a fault as some error of
what is done next.
"""

import sys
from collections.abc import Callable
from importlib import resources
from pathlib import Path

sys.path.insert(0, str(resources.files("kernel_sandbox.runners")))

import torch
from gpu_device import GuardedAllocation
from host_device import HostDevice, HostGraph

from candidates.benchmark.baseline_process import main
from kernel_sandbox.runners.gpu_device import DeviceFault


class Faulty(HostDevice):
    def capture(self, call: Callable[[], None]) -> HostGraph:
        raise DeviceFault("an illegal memory access was encountered")


class FaultyWhenCompiled(HostDevice):
    def __init__(self, waits: int, once: Path | None = None) -> None:
        self._waits_left = waits
        self._once = once

    def synchronise(self) -> None:
        if torch._dynamo.utils.counters["frames"]["ok"]:
            self._waits_left -= 1
        if self._waits_left < 0 and not (self._once and self._once.exists()):
            if self._once:
                self._once.touch()
            raise DeviceFault("an illegal memory access was encountered")


class FaultyLate(HostDevice):
    _is_lost = False

    def allocate(self, content: torch.Tensor) -> GuardedAllocation:
        self._is_lost = True
        raise RuntimeError("an error of some launch before")

    def synchronise(self) -> None:
        if self._is_lost:
            raise DeviceFault("an illegal memory access was encountered")


def open_host(uuid: str) -> HostDevice:
    if uuid == "GPU-faults":
        return Faulty()
    if uuid == "GPU-faults-late":
        return FaultyLate()
    if uuid.startswith("GPU-compiled-"):
        waits, _, once = uuid.removeprefix("GPU-compiled-").partition("-once-")
        return FaultyWhenCompiled(int(waits), Path(once) if once else None)
    return HostDevice()


if __name__ == "__main__":
    main(open_host)
