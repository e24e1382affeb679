"""PyTorch's process of a race on a GPU, with the CPU in the GPU's place: `python tests/host_baseline.py IN OUT GPU`."""

import sys
from importlib import resources

sys.path.insert(0, str(resources.files("kernel_sandbox.runners")))

from host_device import HostDevice

from candidates.benchmark.baseline_process import main

if __name__ == "__main__":
    main(lambda uuid: HostDevice())
