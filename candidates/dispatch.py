"""What serving adds to a kernel: calls through the runtime of a real build whose kernel does nothing."""

import ctypes
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from candidates.benchmark.statistics import median
from candidates.candidate import Candidate, LanguageName
from candidates.device import DeviceFingerprint
from candidates.measurement import Decision, Interval, Measurement, Stage
from candidates.serving_build.build import ShippedKernel, write_build
from candidates.serving_build.manifest import Bound, InstallationSite
from candidates.serving_build.runtime import Installation, install
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, TensorSpec, Workload
from traces.sites import SiteKind

HIT_SHARE = 0.8
"""Of the calls at a site that has a kernel; an assumption, where a site's own share is not known."""

_WIDTH = 64
_SOURCE = """
#include <stdint.h>
extern "C" void kernel(const float*, const float*, const float*, float*, int64_t, int64_t) {}
"""
_ROUNDS, _CALLS = 30, 1000

Call = Callable[[torch.Tensor, torch.Tensor], Any]


class _AddScaled(torch.nn.Module):
    """A site like a norm with a residual: two activations, one parameter, one output, two axes."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.ones(_WIDTH))

    def forward(self, hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        return (hidden + residual) * self.weight


class DispatchUnmeasurable(Exception):
    """The runtime did not serve the empty kernel; the message says why."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DispatchCost:
    hit_us: float
    """All of a served call but the kernel's own work: guard, output, the call itself."""
    miss_us: float
    """What the guard adds to a call that the original serves."""

    def per_hit_us(self, hit_share: float) -> float:
        """What a kernel must win back at each call that it serves, as it also delays those that it does not.

        `hit_share` in (0, 1]: at 0.8 every hit pays for itself and for a quarter of a miss.
        """
        if not 0 < hit_share <= 1:
            raise ValueError(f"hit share {hit_share} is not in (0, 1]")
        return self.hit_us + self.miss_us * (1 - hit_share) / hit_share


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptySite:
    """A module with an installed kernel that does nothing, and what to compare calls of it with."""

    module: torch.nn.Module
    original: Call
    plain: Call
    """What a program without a runtime would write: one output, one call of the same compiled function."""
    hit: Sequence[torch.Tensor]
    miss: Sequence[torch.Tensor]
    """Of a shape that the kernel did not win."""
    installation: Installation


def measure_dispatch_us(device: DeviceFingerprint) -> float:
    """What is charged to a candidate at each call, misses included: `DispatchCost.per_hit_us` at HIT_SHARE.

    Raises DispatchUnmeasurable, OSError without a compiler.
    """
    return measure_dispatch(device).per_hit_us(HIT_SHARE)


def measure_dispatch(device: DeviceFingerprint) -> DispatchCost:
    """Medians over rounds of calls in inference mode. Raises DispatchUnmeasurable, OSError without a compiler."""
    with empty_site(device) as site, torch.inference_mode():
        hits_us, misses_us = [], []
        for _ in range(_ROUNDS):
            hits_us.append(time_calls_us(site.module.forward, site.hit, _CALLS))
            with_us = time_calls_us(site.module.forward, site.miss, _CALLS)
            misses_us.append(with_us - time_calls_us(site.original, site.miss, _CALLS))
        counters = list(site.installation.counters().values())
    served = sum(counter["hits"] for counter in counters)
    if served != _ROUNDS * _CALLS:
        raise DispatchUnmeasurable(
            f"{served} of {_ROUNDS * _CALLS} calls were served: "
            f"{site.installation.obstacle or site.installation.failures or counters}"
        )
    return DispatchCost(hit_us=median(hits_us), miss_us=max(0.0, median(misses_us)))


def time_calls_us(call: Call, arguments: Sequence[torch.Tensor], calls: int) -> float:
    """Mean of one call."""
    hidden, residual = arguments
    began_ns = time.perf_counter_ns()
    for _ in range(calls):
        call(hidden, residual)
    return (time.perf_counter_ns() - began_ns) / calls / 1000


@contextmanager
def empty_site(device: DeviceFingerprint) -> Iterator[EmptySite]:
    model = torch.nn.Sequential(_AddScaled())
    with TemporaryDirectory() as folder:
        build = write_build(Path(folder), "dispatch", device, [_ship_nothing(device, Path(folder))])
        module = model[0]
        original = module.forward
        # Our own, made this moment, and read by nobody else.
        installation = install(model, build.path, trusted_keys=(), allow_unsigned=True, shadow_one_in=0)
        yield EmptySite(
            module=module,
            original=original,
            plain=_plain_call(build.path / build.manifest.kernels[0].library, module.weight),
            hit=(torch.zeros(1, 1, _WIDTH), torch.zeros(1, 1, _WIDTH)),
            miss=(torch.zeros(1, 2, _WIDTH), torch.zeros(1, 2, _WIDTH)),
            installation=installation,
        )
        installation.uninstall()


def _plain_call(library: Path, weight: Any) -> Call:
    function = ctypes.CDLL(str(library)).kernel
    function.argtypes = [ctypes.c_void_p] * 4 + [ctypes.c_int64] * 2
    function.restype = None

    def call(hidden: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        output = torch.empty_like(hidden)
        function(hidden.data_ptr(), residual.data_ptr(), weight.data_ptr(), output.data_ptr(), 1, 1)
        return output

    return call


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
        ranges=((Bound(axes=("batch", "tokens"), low=1, high=1),),),
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
