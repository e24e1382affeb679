"""PyTorch's process of a race on a GPU, with the CPU in the GPU's place: `python tests/host_baseline.py IN OUT GPU`.

A GPU named `GPU-faults` faults at every capture, `GPU-compiled-N` where it was waited for N times after a compilation.
"""

import sys
from collections.abc import Callable
from importlib import resources

sys.path.insert(0, str(resources.files("kernel_sandbox.runners")))

import torch
from host_device import HostDevice, HostGraph

from candidates.benchmark.baseline_process import main
from kernel_sandbox.runners.gpu_device import DeviceFault


class Faulty(HostDevice):
    def capture(self, call: Callable[[], None]) -> HostGraph:
        raise DeviceFault("an illegal memory access was encountered")


class FaultyWhenCompiled(HostDevice):
    def __init__(self, waits: int) -> None:
        self._waits_left = waits

    def synchronise(self) -> None:
        if torch._dynamo.utils.counters["frames"]["ok"]:
            self._waits_left -= 1
        if self._waits_left < 0:
            raise DeviceFault("an illegal memory access was encountered")


def open_host(uuid: str) -> HostDevice:
    if uuid == "GPU-faults":
        return Faulty()
    if uuid.startswith("GPU-compiled-"):
        return FaultyWhenCompiled(int(uuid.rpartition("-")[2]))
    return HostDevice()


if __name__ == "__main__":
    main(open_host)
