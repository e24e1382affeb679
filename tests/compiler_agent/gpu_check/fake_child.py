"""A child with a fake GPU, to be run as a program: `python -m tests.compiler_agent.gpu_check.fake_child`."""

import time

from compiler_agent.gpu_check.child import serve
from compiler_agent.gpu_check.contest import Contest
from kernel_sandbox.runners.gpu_device import Device, DeviceMissing
from tests.compiler_agent.gpu_check.fake_contests import contest_named
from tests.fake_gpu import FakeGpu


def _open(uuid: str | None) -> Device:
    if uuid == "GPU-none":
        raise DeviceMissing("no GPU that torch can use: see nvidia-smi -L")
    return FakeGpu()


def _make(name: str, rows: int, device: Device, seed: int) -> Contest:
    print("libraries print where they like")  # noqa: T201
    if name == "slow" and rows > 1:
        time.sleep(60)
    assert isinstance(device, FakeGpu)
    return contest_named(name, rows, device)


if __name__ == "__main__":
    serve(_open, _make)
