"""DeviceFingerprint and DeviceCeilings: which device a figure was measured on, and what that device can do at best."""

import functools
from collections.abc import Iterable

from pydantic import Field

from candidates.record import Record, digest_of
from candidates.task import Architecture, KernelTask


class DeviceFingerprint(Record):
    """Two machines with one fingerprint may share kernels and measurements."""

    kind: str
    """`cpu`, `cuda` or `rocm`."""
    model: str
    """As the vendor names it, with family, model and stepping on a CPU."""
    features: tuple[str, ...]
    """Instruction sets that a compiler may use (`avx2`, `avx512f`, `sm_90`), sorted."""
    cores: int = Field(ge=1)
    cache_bytes: tuple[int, ...]
    """Per level, L1 data first."""
    compiler: str
    torch_version: str

    @functools.cached_property
    def id(self) -> str:
        """`cpu-` and 12 hex digits; also the name of the device's task queue."""
        return f"{self.kind}-{digest_of(self.model_dump(mode='json'))[:12]}"


class Gpu(Record):
    """One that is here, and that one measurement at a time may have."""

    uuid: str
    """`GPU-…`, or `MIG-…` for a part of one."""
    architecture: Architecture

    def serves(self, task: KernelTask) -> bool:
        """Whether what runs here is evidence for the task."""
        return self.architecture in task.architectures


def kind_of_device(device_id: str) -> str:
    """Of the fingerprint with this id: `cpu`, `cuda` or `rocm`."""
    return device_id.partition("-")[0]


class BandwidthCeiling(Record):
    working_set_bytes: int = Field(ge=1)
    bytes_per_s: float = Field(gt=0)


class DeviceCeilings(Record):
    """Best rates seen on the device with `threads` threads; the floor of an op follows from them."""

    device_id: str
    threads: int = Field(ge=1)
    read: tuple[BandwidthCeiling, ...]
    """Ascending working sets, one inside each cache level and one far outside the last."""
    copy_bandwidth: tuple[BandwidthCeiling, ...]
    flops_per_s: dict[str, float]
    """Fused multiply-adds count two, by element type."""
    dispatch_us: float = Field(ge=0)
    """What the serving runtime adds to one kernel call, with a share of what it adds to calls that no kernel serves."""

    def bytes_per_s(self, working_set_bytes: int) -> float:
        """The better of read and copy rates at the smallest measured level that holds the working set."""
        return max(rate_at(self.read, working_set_bytes), rate_at(self.copy_bandwidth, working_set_bytes))

    def peak_flops_per_s(self, element_types: Iterable[str]) -> float:
        """The best rate of any of these element types; of any at all where none of them was measured."""
        rates = [self.flops_per_s[name] for name in element_types if name in self.flops_per_s]
        return max(rates or self.flops_per_s.values())


def rate_at(levels: tuple[BandwidthCeiling, ...], working_set_bytes: int) -> float:
    """Bytes per s of the smallest measured level that holds the working set; of the last where none does."""
    for level in levels:
        if working_set_bytes <= level.working_set_bytes:
            return level.bytes_per_s
    return levels[-1].bytes_per_s
