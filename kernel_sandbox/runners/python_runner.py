"""Calls a Triton or CUDA kernel on copies of tensors in shared memory; see candidates/judge/python_runner.py.

    python_runner.py MODE INPUTS_FD INPUTS_BYTES OUTPUTS_FD OUTPUTS_BYTES

MODE is `interpret` (Triton on the CPU), `device`, or `device=UUID` for one of several GPUs. What is called, and how, is
in `call.json` beside this file, the kernel in `kernel.py` or `kernel.so`. It speaks the protocol of cpp_runner.cpp, but
answers a RUN when the calls are done, with what they took by the device's clock, and copies what they left into the
arena afterwards, before it reads the next request. A RUN may have one word of payload, CallMode of device_calls.py.
COPY_IN copies what lies in the arena now to where a layout's calls find it; CAPTURE makes the CUDA graphs that a RUN
replays.

Runs inside the sandbox: the standard library, torch and Triton, no import of the project. Nothing that it says is
believed but "the calls returned"; what it checks of the kernel (library calls, inputs) stands beside the rules that its
source is held to outside.
"""

import contextlib
import ctypes
import fcntl
import functools
import json
import math
import mmap
import os
import random
import struct
import sys
import traceback
import types
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent

MACHINERY_FAILED, LOAD_FAILED, CHANGED_FLOAT_STATE, LIBRARY_CALL, CHANGED_INPUTS = range(70, 75)
KERNEL_RAISED, CANNOT_INTERPRET, RACE = 75, 76, 79  # 77 and 78 are those of gpu_device.py
HELLO, PREPARE, LAY_OUT, RUN, COPY_IN, CAPTURE = range(6)
REQUEST, REPLY = struct.Struct("=QIIII"), struct.Struct("=QQ")
OUTPUTS_BIT = 1 << 63


def fail(status: int, what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()
    _exit(status)


_exit, _write, _read = os._exit, os.write, os.read  # a kernel may replace the module's

sys.path.insert(0, str(FOLDER))
if __name__ == "__main__" and sys.argv[1] == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch  # noqa: E402
from device_calls import NO_GRAPH, CallMode, DeviceCalls  # noqa: E402
from device_slots import BareSlot, CudaKernel, DeviceSlot  # noqa: E402
from gpu_device import (  # noqa: E402
    NO_DEVICE_STATUS,
    CaptureFailed,
    DeviceFault,
    DeviceMissing,
    exit_after,
    open_device,
)
from host_device import HostDevice  # noqa: E402
from host_watch import HostWatch, computes_as_before  # noqa: E402
from python_kernel import PythonKernel  # noqa: E402


@dataclass
class Tensor:
    """One tensor of the call, as in the task."""

    role: str
    dtype: torch.dtype
    shape: list[int | str]
    dim_order: list[int]
    allocated: list[int | str]
    """Its sizes in memory."""

    def view(self, flat: torch.Tensor, axes: dict[str, int]) -> torch.Tensor:
        """`flat`: the bytes of what is allocated for the tensor."""
        allocated = sizes_of(self.allocated, axes)
        strides, step = [0] * len(allocated), 1
        for dim in reversed(self.dim_order):
            strides[dim] = step
            step *= allocated[dim]
        return flat.view(self.dtype).as_strided(sizes_of(self.shape, axes), strides)

    def size_bytes(self, axes: dict[str, int]) -> int:
        return math.prod(sizes_of(self.allocated, axes)) * self.dtype.itemsize


def sizes_of(shape: list[int | str], axes: dict[str, int]) -> list[int]:
    return [axes[dim] if isinstance(dim, str) else dim for dim in shape]


class Runner:
    def __init__(
        self, call: dict[str, Any], inputs: torch.Tensor, outputs: torch.Tensor, device: Any, kernel: Any
    ) -> None:
        """`device` as gpu_device.Device; `kernel` None: there is nothing to call."""
        self.watch: HostWatch | None = None
        self.device, self.kernel = device, kernel
        self.segments = inputs, outputs
        self.slot_kind = DeviceSlot if call["has_guards"] else BareSlot
        self.axis_names = call["axes"]
        self.tensors = [Tensor(**{**each, "dtype": getattr(torch, each["dtype"])}) for each in call["tensors"]]
        self.parameters = [tensor for tensor in self.tensors if tensor.role == "parameter"]
        self.prepared: list[Any] = []
        self.parameter_slots: dict[int, DeviceSlot | BareSlot] = {}
        self.axes: dict[str, int] = {}
        self.calls: list[tuple[int, list[DeviceSlot | BareSlot]]] = []
        self.arguments: list[tuple[list[torch.Tensor], Any, list[int]]] = []
        self.device_calls = DeviceCalls(device, self.call)
        self.is_poisoned = False

    def lay_out(self, words: tuple[int, ...]) -> None:
        axis_count = words[2]
        at = 3 + axis_count
        self.axes = dict(zip(self.axis_names, words[3:at], strict=True))
        count, per_call = words[at], words[at + 1]
        at += 2
        self.calls, self.arguments = [], []
        self.device_calls = DeviceCalls(self.device, self.call)
        if self.slot_kind is DeviceSlot and not self.is_poisoned:
            self.device.poison_free_memory()
            self.is_poisoned = True  # what is freed from here on is the kernel's own
        for _ in range(count):
            places = words[at + 1 : at + 1 + per_call]
            slots = [self.slot(tensor, place) for tensor, place in zip(self.tensors, places, strict=True)]
            self.calls.append((words[at], slots))
            at += 1 + per_call
        self.arguments = [self.arguments_of(*call) for call in self.calls]

    def copy_in(self) -> None:
        """Activations, states and outputs; parameters stay as they are."""
        kept = set(self.parameter_slots.values())
        for slot in {slot for _, slots in self.calls for slot in slots} - kept:
            slot.refill()
        self.arguments = [self.arguments_of(*call) for call in self.calls]

    def slot(self, tensor: Tensor, place: int) -> DeviceSlot | BareSlot:
        if tensor.role == "parameter" and place in self.parameter_slots:
            return self.parameter_slots[place]
        arena, offset = self.segments[place >> 63], place & ~OUTPUTS_BIT
        size = tensor.size_bytes(self.axes)
        if offset + size > len(arena):
            fail(MACHINERY_FAILED, "a tensor lies outside the arena")
        slot = self.slot_kind(self.device, arena, offset, size, is_result=tensor.role in ("state", "output"))
        if tensor.role == "parameter":
            self.parameter_slots[place] = slot
        return slot

    def prepare(self, words: tuple[int, ...]) -> int:
        sets, count = words[0], words[1]
        total = 0
        for index in range(sets):
            places = words[3 + index * count : 3 + (index + 1) * count]
            slots = [self.slot(tensor, place) for tensor, place in zip(self.parameters, places, strict=True)]
            views = [tensor.view(slot.content, {}) for tensor, slot in zip(self.parameters, slots, strict=True)]
            with self.blaming_the_kernel():
                result = self.kernel.prepare(self.device, views)
                total += sum(tensor.nbytes for tensor in (result if isinstance(result, tuple) else (result,)))
            self.prepared.append(result)
        return total

    def capture(self, first: int, count: int, how: CallMode) -> int:
        """NO_GRAPH where no graph can hold the calls. What they leave is not copied back."""
        try:
            self.device_calls.capture(first, count, how, functools.partial(self.launch, is_watched=False))
        except CaptureFailed:
            return int(NO_GRAPH)
        return 0

    def run(self, first: int, count: int, how: CallMode) -> int:
        """What the calls took by the device's clock, in ns."""
        launch = functools.partial(self.launch, is_watched=not how & CallMode.TIMED)
        return int(self.device_calls.run(first, count, how, launch))

    def arguments_of(
        self, parameter_set: int, slots: list[DeviceSlot | BareSlot]
    ) -> tuple[list[torch.Tensor], Any, list[int]]:
        """Of one call: its tensors in task order, what `prepare` gave, the axes' sizes."""
        tensors = [tensor.view(slot.content, self.axes) for tensor, slot in zip(self.tensors, slots, strict=True)]
        return tensors, self.prepared[parameter_set] if self.prepared else None, list(self.axes.values())

    def call(self, index: int) -> None:
        self.kernel.call(self.device, *self.arguments[index])

    def launch(self, index: int, *, is_watched: bool) -> None:
        tensors, prepared, _ = self.arguments[index]
        self.watch = None
        if is_watched:
            self.watch = HostWatch([*tensors, prepared], sees_memory=isinstance(self.device, HostDevice))
        with self.blaming_the_kernel(self.watch), self.watch or contextlib.nullcontext():
            self.call(index)
        if is_watched and not computes_as_before():
            fail(CHANGED_FLOAT_STATE, "the kernel left rounding or denormal numbers changed")

    def watch_launches(self) -> None:
        """Of an interpreter."""
        import interpreter_launches
        from interpreter_races import RaceWatch

        races = RaceWatch()

        def begin(arguments: list[Any]) -> None:
            if self.watch is not None:
                self.watch.begin_launch(arguments)
            races.begin()

        def end(name: str) -> None:
            if self.watch is not None:
                self.watch.end_launch()
            if wrong := races.end():
                fail(RACE, f"{name} depends on the order of its programs: {wrong}")

        interpreter_launches.watch(begin, end)

    @contextlib.contextmanager
    def blaming_the_kernel(self, watch: HostWatch | None = None) -> Iterator[None]:
        error = None
        try:
            yield
        except Exception as raised:
            error = raised
        if watch is not None:
            watch.finish()
        if watch is not None and watch.calls:
            fail(LIBRARY_CALL, f"the kernel had torch compute: {', '.join(sorted(set(watch.calls))[:5])}")
        if error is not None:
            self.device.synchronise()  # a fault of the device shows here
            raise_for_kernel(error)

    def copy_back(self, first: int, count: int) -> None:
        called = self.calls[first : first + count]
        for slot in dict.fromkeys(slot for _, slots in called for slot in slots):  # calls share parameters
            if slot.is_result:
                slot.copy_back()
            elif slot.has_changed():
                fail(CHANGED_INPUTS, "the kernel wrote to an input")


def raise_for_kernel(error: Exception) -> None:
    """Ends the process with what the kernel raised, or with what the interpreter cannot do."""
    cause: BaseException | None = error
    while cause is not None and type(cause).__name__ == "InterpreterError":
        cause = cause.__cause__  # one for each function of the kernel that it went through
    if cause is not error and cause is not None and not isinstance(cause, AssertionError):
        fail_with(CANNOT_INTERPRET, cause, "the interpreter cannot run it:")
    fail_with(KERNEL_RAISED, cause or error, "the kernel raised")


def fail_with(status: int, error: BaseException, what: str) -> None:
    trace = "".join(traceback.format_exception(error))[-4000:]
    fail(status, f"{trace}\n{what} {type(error).__name__}: {str(error)[:500]}")


def prepare_interpreter() -> None:
    import interpreter_launches
    import interpreter_reductions
    import interpreter_repairs

    for repairs in (interpreter_repairs, interpreter_reductions, interpreter_launches):
        repairs.repair()


def receive(count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = _read(0, count - len(content))
        if not piece:
            raise EOFError
        content += piece
    return content


def map_segment(descriptor: int, size: int, protection: int) -> torch.Tensor:
    """`[bytes]`; the descriptor is closed, so that nothing can map the memory once more."""
    library = ctypes.CDLL(None, use_errno=True)
    library.mmap.restype = ctypes.c_void_p
    library.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long]
    address = library.mmap(None, size, protection, mmap.MAP_SHARED, descriptor, 0)
    if address in (None, ctypes.c_void_p(-1).value):
        fail(MACHINERY_FAILED, f"cannot map {size} bytes: {os.strerror(ctypes.get_errno())}")
    os.close(descriptor)
    return torch.frombuffer((ctypes.c_uint8 * size).from_address(address), dtype=torch.uint8)


def move_replies() -> int:
    """A descriptor for them that is nowhere written down; what the kernel prints is log."""
    replies = fcntl.fcntl(1, fcntl.F_DUPFD_CLOEXEC, random.SystemRandom().randrange(32, 200))
    os.dup2(2, 1)
    return replies


def main() -> None:
    _, mode, *segments = sys.argv
    del sys.argv[1:]
    replies = move_replies()
    torch.set_num_threads(1)
    inputs = map_segment(int(segments[0]), int(segments[1]), mmap.PROT_READ)
    outputs = map_segment(int(segments[2]), int(segments[3]), mmap.PROT_READ | mmap.PROT_WRITE)
    call = json.loads((FOLDER / "call.json").read_text())
    try:
        device = open_for(mode)
        sys.modules["__main__"] = types.ModuleType("__main__")  # the kernel finds none of this there
        runner = Runner(call, inputs, outputs, device, load(call, is_interpreted=mode == "interpret"))
        if mode == "interpret":
            runner.watch_launches()
        serve(runner, replies)
    except EOFError:
        if not call["is_watched"]:
            _exit(0)
        # What watches may collect its report when a process ends as processes do.
    except DeviceMissing as missing:
        fail(NO_DEVICE_STATUS, str(missing))
    except DeviceFault as fault:
        exit_after(fault)


def open_for(mode: str) -> Any:
    if mode == "interpret":
        prepare_interpreter()
        return HostDevice()
    return open_device(mode.partition("=")[2] or None)


def unpack_compiled() -> None:
    """What the build compiled for this GPU, into the folder of Triton's own cache."""
    with zipfile.ZipFile(FOLDER / "kernel.zip") as built:
        built.extractall(FOLDER, [name for name in built.namelist() if name.startswith("cache/")])
    (FOLDER / "cache").rename(FOLDER / "triton_cache")  # its files name each other by whole paths


def load(call: dict[str, Any], *, is_interpreted: bool) -> Any:
    try:
        match call["language"]:
            case "triton":
                if not is_interpreted:
                    unpack_compiled()
                return PythonKernel(call)
            case "cuda":
                return CudaKernel(str(FOLDER / "kernel.so"), has_prepare=call["prepare"] is not None)
    except Exception as error:
        fail_with(LOAD_FAILED, error, "cannot load the kernel:")
    return None


def serve(runner: Runner, replies: int) -> None:
    while True:
        nonce, kind, first, count, payload_bytes = REQUEST.unpack(receive(REQUEST.size))
        words = struct.unpack(f"={payload_bytes // 8}Q", receive(payload_bytes))
        value = 0
        if kind == PREPARE:
            value = runner.prepare(words)
        elif kind == LAY_OUT:
            runner.lay_out(words)
        elif kind == RUN:
            how = CallMode(words[0] if words else 0)
            value = runner.run(first, count, how)
        elif kind == CAPTURE:
            value = runner.capture(first, count, CallMode(words[0]))
        elif kind == COPY_IN:
            runner.copy_in()
        _write(replies, REPLY.pack(nonce, value))
        if kind == RUN and not how & CallMode.WITHOUT_CALLS:
            runner.copy_back(first, count)


if __name__ == "__main__":
    main()
