"""The trusted side of a race: PyTorch calling a task's reference on tensors that lie in the arena.

A program of its own (`python -m candidates.benchmark.baseline_process IN OUT [GPU]`), so that it can be pinned, has its
own allocator settings, and pays eager's own dispatch. With the UUID of a GPU it calls the reference there, on copies of
the arena. It answers on pipes; `candidates.benchmark.baseline` is the other end.
"""

import gc
import mmap
import os
import sys
import traceback
import warnings
from collections.abc import Callable

import torch

from candidates.benchmark.baseline_protocol import (
    DONE,
    FAILED,
    RUN_PAYLOAD,
    Command,
    Layout,
    Opening,
    pickled,
    read_exactly,
    read_pickled,
)
from candidates.reference import load_reference
from candidates.task import InputRole, InputSpec, KernelTask
from kernel_sandbox.arena import Place, Segment
from kernel_sandbox.runners.device_calls import CallMode, DeviceCalls
from kernel_sandbox.runners.device_slots import DeviceSlot
from kernel_sandbox.runners.gpu_device import Device, DeviceFault, exit_after, open_device

TASKS_KEPT = 4
"""Compiled references that stay loaded; torch.compile holds some 10 MB for each."""

Kernel = Callable[..., object]


class Session:
    """One function, eager or compiled, over one arena."""

    def __init__(self, task: KernelTask, kernel: Kernel, segments: dict[Segment, memoryview]) -> None:
        self._task = task
        self._kernel = kernel
        self._segments = segments
        self._calls: list[list[torch.Tensor]] = []

    def lay_out(self, layout: Layout) -> None:
        inputs = self._task.inputs
        self._calls = [
            [self._view(spec, place, layout.axes) for spec, place in zip(inputs, call.tensors, strict=False)]
            for call in layout.calls
        ]
        # Compiles for this shape where needed, and lets every cache of torch see the shape once.
        for arguments in self._calls[:2]:
            self._kernel(*arguments)
        # What is there now is not looked at again: torch's million objects would take a tenth of a second each time.
        gc.collect()
        gc.freeze()

    def run(self, first: int, count: int, how: CallMode) -> None:
        kernel = self._kernel
        for arguments in self._calls[first : first + count]:
            kernel(*arguments)

    def capture(self, first: int, count: int, how: CallMode) -> None:
        """There are no graphs on a CPU."""

    def copy_in(self) -> None:
        """Calls read the arena itself."""

    def _content(self, spec: InputSpec, place: Place, axes: dict[str, int]) -> torch.Tensor:
        """[bytes] uint8, what a call finds."""
        return torch.frombuffer(
            self._segments[place.segment], dtype=torch.uint8, count=spec.size_bytes(axes), offset=place.offset_bytes
        )

    def _view(self, spec: InputSpec, place: Place, axes: dict[str, int]) -> torch.Tensor:
        flat = self._content(spec, place, axes).view(getattr(torch, spec.element_type.value))
        tensor = flat.as_strided(spec.sizes(axes), spec.strides(axes))
        for dim, axis in enumerate(spec.shape):
            if isinstance(axis, str) and len({workload.axes[axis] for workload in self._task.workloads}) > 1:
                # One compilation for all sizes of an axis, the other dims stay constants of the compiled code.
                torch._dynamo.maybe_mark_dynamic(tensor, dim)
        return tensor


class DeviceSession(Session):
    """On a GPU, on copies of the arena."""

    def __init__(self, task: KernelTask, kernel: Kernel, segments: dict[Segment, memoryview], device: Device) -> None:
        super().__init__(task, kernel, segments)
        self._device = device
        self._parameters: dict[Place, DeviceSlot] = {}
        self._slots: dict[Place, DeviceSlot] = {}

    def lay_out(self, layout: Layout) -> None:
        """Raises DeviceFault."""
        self._device_calls = DeviceCalls(self._device, self._call)
        self._slots.clear()
        super().lay_out(layout)
        self._device.synchronise()  # code that faults is known here, where its baseline can be left out

    def run(self, first: int, count: int, how: CallMode) -> None:
        """Raises DeviceFault."""
        self._device_calls.run(first, count, how, self._call)

    def capture(self, first: int, count: int, how: CallMode) -> None:
        """Raises CaptureFailed, DeviceFault."""
        self._device_calls.capture(first, count, how, self._call)

    def copy_in(self) -> None:
        for slot in self._slots.values():
            slot.refill()

    def _call(self, index: int) -> None:
        self._kernel(*self._calls[index])

    def _content(self, spec: InputSpec, place: Place, axes: dict[str, int]) -> torch.Tensor:
        slots = self._parameters if spec.role is InputRole.PARAMETER else self._slots
        if place not in slots:
            arena = torch.frombuffer(self._segments[place.segment], dtype=torch.uint8)
            size_bytes = spec.size_bytes(axes)
            slots[place] = DeviceSlot(self._device, arena, place.offset_bytes, size_bytes, is_result=False)
        return slots[place].content


class Server:
    def __init__(self, device: Device | None) -> None:
        self._device = device
        self._sessions: dict[int, Session] = {}
        self._compiled: dict[str, Kernel] = {}

    def serve(self, requests: int, replies: int) -> None:
        """Until the other end closes its pipe."""
        while True:
            try:
                command = Command(read_exactly(requests, 1)[0])
            except EOFError:
                return
            if command is Command.RUN:
                session, first, count, how = RUN_PAYLOAD.unpack(read_exactly(requests, RUN_PAYLOAD.size))
                self._sessions[session].run(first, count, CallMode(how))
                os.write(replies, DONE)
                continue
            content = read_pickled(requests)
            try:
                self._obey(command, content)
            except DeviceFault:
                raise
            except Exception:  # noqa: BLE001  (a compiler may raise anything)
                words = traceback.format_exc(limit=-3)
                if self._device is not None:
                    # A lost device may show as any error of the launch after: the next task would be charged with it.
                    self._device.synchronise()
                # The owner decides what a baseline that does not run means; here only the words are known.
                os.write(replies, FAILED + pickled(words))
            else:
                os.write(replies, DONE)

    def _obey(self, command: Command, content: object) -> None:
        match command, content:
            case Command.OPEN, Opening() as opening:
                task = KernelTask.model_validate_json(opening.task_json)
                device = None if self._device is None else self._device.torch_device
                kernel = (
                    self._compile(task, device) if opening.is_compiled else load_reference(opening.reference, device)
                )
                segments = {segment: _map(segment, path) for segment, path in opening.segment_paths.items()}
                if self._device is None:
                    self._sessions[opening.session] = Session(task, kernel, segments)
                else:
                    self._sessions[opening.session] = DeviceSession(task, kernel, segments, self._device)
            case Command.LAY_OUT, Layout() as layout:
                self._sessions[layout.session].lay_out(layout)
            case Command.CLOSE, int() as session:
                del self._sessions[session]
            case Command.CAPTURE, (int() as session, int() as first, int() as count, int() as how):
                self._sessions[session].capture(first, count, CallMode(how))
            case Command.COPY_IN, int() as session:
                self._sessions[session].copy_in()
            case Command.PIN, int() | None as core:
                cores = range(os.cpu_count() or 1) if core is None else [core]
                for thread in os.listdir("/proc/self/task"):
                    os.sched_setaffinity(int(thread), cores)
            case _:
                raise ValueError(f"{command!r} does not come with {type(content).__name__}")

    def _compile(self, task: KernelTask, device: torch.device | None) -> Kernel:
        """The compiled reference, one for each task; it is compiled when it first sees a shape."""
        if task.id not in self._compiled:
            if len(self._compiled) >= TASKS_KEPT:
                self._compiled.clear()
                torch._dynamo.reset()
                gc.unfreeze()
            self._compiled[task.id] = torch.compile(load_reference(task.reference, device))
        return self._compiled[task.id]


def _map(segment: Segment, path: str) -> memoryview:
    is_writable = segment is Segment.OUTPUTS
    descriptor = os.open(path, os.O_RDWR if is_writable else os.O_RDONLY)
    try:
        access = mmap.ACCESS_WRITE if is_writable else mmap.ACCESS_READ
        return memoryview(mmap.mmap(descriptor, os.fstat(descriptor).st_size, access=access))
    finally:
        os.close(descriptor)


def main(open_gpu: Callable[[str], Device]) -> None:
    # Inputs are mapped without the right to write; a reference that writes to one is stopped by the system.
    warnings.filterwarnings("ignore", message="The given buffer is not writable")
    torch._dynamo.config.recompile_limit = 64
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    requests, replies, *gpu = sys.argv[1:]
    try:
        with torch.inference_mode():
            Server(open_gpu(gpu[0]) if gpu else None).serve(int(requests), int(replies))
    except DeviceFault as fault:
        exit_after(fault)


if __name__ == "__main__":
    main(open_device)
