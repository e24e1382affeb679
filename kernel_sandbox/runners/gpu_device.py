"""Device: the one boundary between what runs kernels on a GPU and the GPU; CudaDevice is it for NVIDIA's.

Stands alone beside the runners in a sandbox: the standard library and torch, no import of the project. It launches
nothing of its own but copies and fills; kernels are launched by whoever calls them, on the stream that is current.

A fault on a device is for good: every later use of it in this process raises again. The process ends with
DEVICE_FAULT_STATUS, which is all that a judge outside needs to see.
"""

import ctypes
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn, Protocol

import torch

DEVICE_FAULT_STATUS = 77
NO_DEVICE_STATUS = 78
GUARD_BYTES = 4096
"""On either side of what a kernel gets; NaN in every element type."""
_GUARD = 0xFF
_FLUSH_OVER_L2 = 2
_LEFT_FREE_BYTES = 1 << 30
"""Which nobody poisons: libraries need some to load."""
_POISONED_AT_ONCE_BYTES = 4 << 30
_PERSISTING_L2_LIMIT = 6  # cudaLimitPersistingL2CacheSize
_HOLD_CYCLES = 1_000_000  # about 0.6 ms: PyTorch launches a hundred kernels meanwhile


class DeviceMissing(Exception):
    """There is no such GPU, or torch cannot use it; the message says what to do."""


class DeviceFault(Exception):
    """A kernel did what ends a device's context: an illegal address, a trap, a launch that cannot be."""


class CaptureFailed(Exception):
    """A call that no CUDA graph can hold, such as one that waits for the device; the device is as it was."""


@dataclass(frozen=True)
class DeviceFacts:
    uuid: str
    """`GPU-…`, or `MIG-…` for a part of one."""
    model: str
    architecture: str
    """`sm_90`."""
    multiprocessors: int
    memory_bytes: int
    l2_bytes: int
    driver: str
    """Of CUDA, as torch was built for it and as the driver offers it."""


class Allocation(Protocol):
    """Memory of a device that holds one tensor's bytes, between guards."""

    content: torch.Tensor
    """[bytes] uint8, on the device."""

    def is_damaged(self) -> bool:
        """Whether something was written to the guards; waits for the device."""
        ...


class Moment(Protocol):
    """A point in the work of the current stream."""

    def us_since(self, earlier: "Moment") -> float:
        """By the device's clock; waits for both."""
        ...


class Graph(Protocol):
    def replay(self) -> None: ...


class Device(Protocol):
    """Every method raises DeviceFault once a kernel has faulted."""

    facts: DeviceFacts
    torch_device: torch.device

    def allocate(self, content: torch.Tensor) -> Allocation:
        """Memory of its own for `content`, [bytes] uint8 on the host."""
        ...

    def read(self, memory: torch.Tensor) -> torch.Tensor:
        """On the host, when all streams are done."""
        ...

    def write(self, memory: torch.Tensor, content: torch.Tensor) -> None:
        """`content` from the host, when all streams are done."""
        ...

    def poison_free_memory(self) -> None:
        """Fills what nobody holds with NaNs, so that a kernel finds no results of others in what it allocates."""
        ...

    def synchronise(self) -> None:
        """Waits for all streams, also those that a kernel made."""
        ...

    def settle_cache(self, *, is_cold: bool) -> None:
        """Takes back what a kernel made persist in L2; with `is_cold` also fills L2 with what no kernel reads."""
        ...

    def hold(self) -> None:
        """Keeps the current stream busy for longer than a launch takes: what is launched next waits for the device."""
        ...

    def mark(self) -> Moment: ...

    def capture(self, call: Callable[[], None]) -> Graph:
        """What `call` launches on the stream that is then current, which nothing else ever has; it has run once before,
        outside. Raises CaptureFailed."""
        ...

    def stream(self) -> int:
        """Handle of the current stream, for a kernel with a C ABI."""
        ...


def exit_after(fault: DeviceFault) -> NoReturn:
    """Without clean-up: every destructor that touches the device would fail, or wait for good."""
    sys.stderr.write(f"the device faulted: {fault}\n")
    sys.stderr.flush()
    os._exit(DEVICE_FAULT_STATUS)


def open_device(uuid: str | None) -> Device:
    """Before anything else of this process uses CUDA. `uuid` None: the only GPU that it can see, or its first.

    Raises DeviceMissing.
    """
    if uuid is not None:
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            raise DeviceMissing(f"CUDA is in use already: {uuid} must be chosen before")
        os.environ["CUDA_VISIBLE_DEVICES"] = uuid
    if torch.version.cuda is None:
        raise DeviceMissing("this torch is built without CUDA: install one with it, from https://pytorch.org")
    if not torch.cuda.is_available():
        raise DeviceMissing(f"no GPU {uuid or ''} that torch can use: see nvidia-smi -L, and the driver's version")
    device = CudaDevice()
    if uuid is not None and _digits(uuid) != _digits(device.facts.uuid):
        raise DeviceMissing(f"asked for {uuid}, got {device.facts.uuid}: see nvidia-smi -L")
    return device


class CudaDevice:
    """Device 0 of what CUDA_VISIBLE_DEVICES leaves visible."""

    def __init__(self) -> None:
        self._fault: DeviceFault | None = None
        self.torch_device = torch.device("cuda", 0)
        torch.cuda.init()  # type: ignore[no-untyped-call]
        torch.cuda.set_device(self.torch_device)
        self._runtime = _Runtime()
        properties = torch.cuda.get_device_properties(self.torch_device)
        self.facts = DeviceFacts(
            uuid=_read_uuid(),
            model=properties.name,
            architecture=f"sm_{properties.major}{properties.minor}",
            multiprocessors=properties.multi_processor_count,
            memory_bytes=properties.total_memory,
            l2_bytes=properties.L2_cache_size,
            driver=f"torch for CUDA {torch.version.cuda}, driver for {_read_driver_version()}",
        )
        # Not the default stream: a kernel could tell a launch from a capture by a handle of 0.
        torch.cuda.set_stream(torch.cuda.ExternalStream(self._runtime.make_stream()))  # type: ignore[no-untyped-call]
        self._flush = torch.zeros(_FLUSH_OVER_L2 * self.facts.l2_bytes // 4, dtype=torch.int32, device="cuda")

    def allocate(self, content: torch.Tensor) -> "GuardedAllocation":
        with self._watch():
            return GuardedAllocation(self, content)

    def read(self, memory: torch.Tensor) -> torch.Tensor:
        self.synchronise()
        with self._watch():
            return memory.cpu()

    def write(self, memory: torch.Tensor, content: torch.Tensor) -> None:
        self.synchronise()
        with self._watch():
            memory.copy_(content)

    def poison_free_memory(self) -> None:
        with self._watch():
            torch.cuda.empty_cache()
            free_bytes = torch.cuda.mem_get_info()[0] - _LEFT_FREE_BYTES
            held = []
            while free_bytes > 0:
                size = min(free_bytes, _POISONED_AT_ONCE_BYTES)
                try:
                    held.append(torch.full((size,), _GUARD, dtype=torch.uint8, device="cuda"))
                except torch.cuda.OutOfMemoryError:
                    break  # another process took it, or it is in pieces
                free_bytes -= size
            torch.cuda.synchronize()
            del held
            torch.cuda.empty_cache()

    def synchronise(self) -> None:
        with self._watch():
            torch.cuda.synchronize()
            self._runtime.require_no_error()

    def settle_cache(self, *, is_cold: bool) -> None:
        with self._watch():
            self._runtime.require_no_error()
            self._runtime.reset_persisting_l2()
            if is_cold:
                self._flush.add_(1)

    def hold(self) -> None:
        with self._watch():
            torch.cuda._sleep(_HOLD_CYCLES)  # type: ignore[no-untyped-call]

    def mark(self) -> "CudaMoment":
        with self._watch():
            event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
            event.record()
        return CudaMoment(self, event)

    def capture(self, call: Callable[[], None]) -> Graph:
        self.synchronise()
        graph = torch.cuda.CUDAGraph()
        # One of torch's own would live on: a kernel that keeps its handle could launch beside what is timed.
        handle = self._runtime.make_stream()
        try:
            with torch.cuda.graph(graph, stream=torch.cuda.ExternalStream(handle)):  # type: ignore[no-untyped-call]
                call()
        except RuntimeError as error:
            self._runtime.forget_error()
            self.synchronise()  # raises where the device is lost, and not only the graph
            raise CaptureFailed(str(error).splitlines()[0]) from error
        finally:
            self._runtime.destroy_stream(handle)
        return graph

    def stream(self) -> int:
        return int(torch.cuda.current_stream().cuda_stream)

    def _watch(self) -> "_Watch":
        if self._fault is not None:
            raise self._fault
        return _Watch(self)

    def note(self, fault: DeviceFault) -> None:
        self._fault = fault


class GuardedAllocation:
    def __init__(self, device: Device, content: torch.Tensor) -> None:
        self._device = device
        size = len(content) + 2 * GUARD_BYTES
        self._whole = torch.full((size,), _GUARD, dtype=torch.uint8, device=device.torch_device)
        self.content = self._whole[GUARD_BYTES : GUARD_BYTES + len(content)]
        self.content.copy_(content)

    def is_damaged(self) -> bool:
        guards = torch.cat((self._whole[:GUARD_BYTES], self._whole[-GUARD_BYTES:]))
        return bool((self._device.read(guards) != _GUARD).any())


class CudaMoment:
    def __init__(self, device: CudaDevice, event: torch.cuda.Event) -> None:
        self._device = device
        self.event = event

    def us_since(self, earlier: Moment) -> float:
        if not isinstance(earlier, CudaMoment):
            raise TypeError("moments of two devices have nothing between them")
        self._device.synchronise()
        return float(earlier.event.elapsed_time(self.event)) * 1000


class _Watch:
    """Turns torch's errors of CUDA into faults, which the device then keeps."""

    def __init__(self, device: CudaDevice) -> None:
        self._device = device

    def __enter__(self) -> None: ...

    def __exit__(self, kind: object, error: BaseException | None, _: object) -> None:
        is_fault = isinstance(error, RuntimeError) and "CUDA" in str(error)
        if is_fault and not isinstance(error, torch.cuda.OutOfMemoryError):
            fault = DeviceFault(str(error).splitlines()[0])
            self._device.note(fault)
            raise fault from error


class _Runtime:
    """What torch does not offer of CUDA's runtime, which it has loaded already."""

    def __init__(self) -> None:
        major = str(torch.version.cuda).partition(".")[0]
        try:
            self._library = ctypes.CDLL(f"libcudart.so.{major}")
        except OSError as error:
            raise DeviceMissing(f"libcudart.so.{major} cannot be loaded, though torch needs it: {error}") from error
        self._library.cudaGetErrorString.restype = ctypes.c_char_p

    def reset_persisting_l2(self) -> None:
        # A limit of 0 sets nothing aside for later windows; a device without such a cache says so, and has nothing.
        self._library.cudaDeviceSetLimit(_PERSISTING_L2_LIMIT, ctypes.c_size_t(0))
        self._library.cudaCtxResetPersistingL2Cache()
        self.forget_error()

    def make_stream(self) -> int:
        stream = ctypes.c_void_p()
        self._require(self._library.cudaStreamCreate(ctypes.byref(stream)))
        return int(stream.value or 0)

    def destroy_stream(self, stream: int) -> None:
        self._library.cudaStreamDestroy(ctypes.c_void_p(stream))

    def forget_error(self) -> None:
        self._library.cudaGetLastError()

    def require_no_error(self) -> None:
        """A launch that could not be leaves its error here, and nowhere else."""
        self._require(self._library.cudaGetLastError())

    def _require(self, status: int) -> None:
        if status:
            raise RuntimeError(f"CUDA error {status}: {self._library.cudaGetErrorString(status).decode()}")


def _read_uuid() -> str:
    """Of a MIG instance its own, which torch's properties do not tell from the whole GPU's."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, uuid = ctypes.c_int(), (ctypes.c_ubyte * 16)()
    if driver.cuDeviceGet(ctypes.byref(device), 0) or driver.cuDeviceGetUuid_v2(uuid, device):
        raise DeviceMissing("the driver does not say which GPU this is: update it to CUDA 11.4 or newer")
    digits = bytes(uuid).hex()
    kind = "MIG" if os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith("MIG-") else "GPU"
    return f"{kind}-{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def _read_driver_version() -> str:
    version = ctypes.c_int()
    ctypes.CDLL("libcuda.so.1").cuDriverGetVersion(ctypes.byref(version))
    return f"CUDA {version.value // 1000}.{version.value % 1000 // 10}"


def _digits(uuid: str) -> str:
    return uuid.partition("-")[2].replace("-", "").lower()
