"""What serving adds to a kernel: one call through the runtime of a real build whose kernel does nothing."""

import subprocess
import time
from pathlib import Path
from tempfile import TemporaryDirectory

import torch

from candidates.benchmark.statistics import median
from candidates.candidate import Candidate, LanguageName
from candidates.device import DeviceFingerprint
from candidates.measurement import Decision, Interval, Measurement, Stage
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.manifest import InstallationSite
from candidates.serving_build.runtime import install
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from traces.sites import SiteKind

_WIDTH = 64
_SOURCE = """
#include <stdint.h>
extern "C" void kernel(const float*, const float*, const float*, float*, int64_t, int64_t) {}
"""
_ROUNDS, _CALLS = 30, 1000


class _AddScaled(torch.nn.Module):
    """A site like a norm with a residual: two activations, one parameter, one output, two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(_WIDTH))

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return (hidden + residual) * self.weight


class DispatchUnmeasurable(Exception):
    """The runtime did not serve the empty kernel; the message says why."""


def measure_dispatch_us(device: DeviceFingerprint) -> float:
    """The median over rounds of calls in inference mode. Raises DispatchUnmeasurable, OSError without a compiler."""
    model = torch.nn.Sequential(_AddScaled())
    with TemporaryDirectory() as folder:
        build = write_build(Path(folder), "dispatch", device, [_ship_nothing(device, Path(folder))])
        installation = install(model, build.path)
        hidden, residual = torch.zeros(1, 1, _WIDTH), torch.zeros(1, 1, _WIDTH)
        forward = model[0].forward
        times_us = []
        with torch.inference_mode():
            for _ in range(_ROUNDS):
                began_ns = time.perf_counter_ns()
                for _ in range(_CALLS):
                    forward(hidden, residual)
                times_us.append((time.perf_counter_ns() - began_ns) / _CALLS / 1000)
        served = sum(counter["hits"] for counter in installation.counters().values())
        installation.uninstall()
    if served != _ROUNDS * _CALLS:
        raise DispatchUnmeasurable(
            f"{served} of {_ROUNDS * _CALLS} calls were served: {installation.obstacle or installation.failures}"
        )
    return median(times_us)


def _ship_nothing(device: DeviceFingerprint, folder: Path) -> ShippedKernel:
    (folder / "kernel.cpp").write_text(_SOURCE)
    command = ["g++", "-O1", "-shared", "-fPIC", "-o", str(folder / "kernel.so"), str(folder / "kernel.cpp")]
    subprocess.run(command, check=True, capture_output=True)
    task = _task(device)
    return ShippedKernel(
        task=task,
        candidate=Candidate(language=LanguageName.CPP, source=_SOURCE),
        artifact=(folder / "kernel.so").read_bytes(),
        site=InstallationSite(kind=SiteKind.MODULE, module_paths=("0",)),
        measurement=Measurement(
            stage=Stage.SCREEN,
            device_id=device.id,
            threads=1,
            workloads=(),
            traffic_weighted_speedup=1.0,
            interval=Interval(1.0, 1.0),
            decision=Decision.UNDECIDED,
            wall_s=0.0,
        ),
        ranges=((),),
    )


def _task(device: DeviceFingerprint) -> KernelTask:
    float32, shape, order = ElementType.FLOAT32, ("batch", "tokens", _WIDTH), (0, 1, 2)
    return KernelTask(
        op="dispatch",
        site="0",
        level=SiteLevel.LEAF,
        reference="def reference(hidden, residual, weight):\n    return (hidden + residual) * weight",
        inputs=(
            InputSpec(name="hidden", element_type=float32, shape=shape, dim_order=order, role=InputRole.ACTIVATION),
            InputSpec(name="residual", element_type=float32, shape=shape, dim_order=order, role=InputRole.ACTIVATION),
            InputSpec(
                name="weight",
                element_type=float32,
                shape=(_WIDTH,),
                dim_order=(0,),
                role=InputRole.PARAMETER,
                attribute="weight",
            ),
        ),
        outputs=(TensorSpec(name="output", element_type=float32, shape=shape, dim_order=order),),
        axes=("batch", "tokens"),
        workloads=(Workload(axes={"batch": 1, "tokens": 1}, calls_per_hour=1.0),),
        error_bound=ErrorBound(scaled_error=0.0),
        device_id=device.id,
    )
