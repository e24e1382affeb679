"""PyTorch's process of a race on a GPU, with the CPU in the GPU's place: `python tests/host_baseline.py IN OUT GPU`.

A GPU named `GPU-faults` faults at every capture.
"""

import sys
from collections.abc import Callable
from importlib import resources

sys.path.insert(0, str(resources.files("kernel_sandbox.runners")))

from host_device import HostDevice, HostGraph

from candidates.benchmark.baseline_process import main
from kernel_sandbox.runners.gpu_device import DeviceFault


class Faulty(HostDevice):
    def capture(self, call: Callable[[], None]) -> HostGraph:
        raise DeviceFault("an illegal memory access was encountered")


if __name__ == "__main__":
    main(lambda uuid: Faulty() if uuid == "GPU-faults" else HostDevice())
