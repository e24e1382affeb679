"""Calls a kernel with a Python host side on copies of tensors in shared memory; see candidates/judge/python_runner.py.

    python_runner.py MODE INPUTS_FD INPUTS_BYTES OUTPUTS_FD OUTPUTS_BYTES

MODE is `interpret` (Triton on the CPU). The kernel and what it is called with are in `call.json` and `kernel.py` beside
this file. It speaks the protocol of cpp_runner.cpp, but answers a RUN when the calls are done and copies what they left
into the arena afterwards, before it reads the next request.

Runs inside the sandbox: the standard library, torch and Triton, no import of the project. Nothing that it says is
believed but "the calls returned"; what it checks of the kernel (library calls, inputs) stands beside the rules that its
source is held to outside.
"""

import ctypes
import fcntl
import json
import linecache
import mmap
import os
import random
import struct
import sys
import traceback
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
GUARD_BYTES = 256
"""As in kernel_sandbox/arena.py: what lies beside an output travels with it, so that a write there is seen."""

MACHINERY_FAILED, LOAD_FAILED, CHANGED_FLOAT_STATE, LIBRARY_CALL, CHANGED_INPUTS = range(70, 75)
KERNEL_RAISED, CANNOT_INTERPRET, RACE = 75, 76, 77
HELLO, PREPARE, LAY_OUT, RUN = range(4)
REQUEST, REPLY = struct.Struct("=QIIII"), struct.Struct("=QQ")
OUTPUTS_BIT = 1 << 63
INTERPRET = "interpret"


def fail(status: int, what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()
    _exit(status)


_exit, _write, _read = os._exit, os.write, os.read  # a kernel may replace the module's

if __name__ == "__main__" and sys.argv[1] == INTERPRET:
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch  # noqa: E402
from torch.utils._python_dispatch import _disable_current_modes  # noqa: E402

sys.path.insert(0, str(FOLDER))
from host_watch import HostWatch  # noqa: E402


@dataclass
class Tensor:
    """One tensor of the call, as in the task."""

    role: str
    dtype: torch.dtype
    shape: list[int | str]
    dim_order: list[int]

    def sizes(self, axes: dict[str, int]) -> list[int]:
        return [axes[dim] if isinstance(dim, str) else dim for dim in self.shape]

    def view(self, flat: torch.Tensor, axes: dict[str, int]) -> torch.Tensor:
        """`flat`: the bytes of the tensor alone."""
        sizes = self.sizes(axes)
        strides, step = [0] * len(sizes), 1
        for dim in reversed(self.dim_order):
            strides[dim] = step
            step *= sizes[dim]
        return flat.view(self.dtype).as_strided(sizes, strides)

    def size_bytes(self, axes: dict[str, int]) -> int:
        count = 1
        for size in self.sizes(axes):
            count *= size
        return count * self.dtype.itemsize


class Slot:
    """Fresh memory of the kernel's own for one place of the arena, a guard at either end."""

    def __init__(self, arena: torch.Tensor, offset: int, size: int, *, is_result: bool) -> None:
        self.arena = arena
        self.place = slice(offset, offset + size)
        before, after = min(GUARD_BYTES, offset), min(GUARD_BYTES, len(arena) - offset - size)
        self.whole = slice(offset - before, offset + size + after)
        self.inside = slice(before, before + size)
        self.is_result = is_result
        self.memory = self.arena[self.whole].clone()
        if not is_result:  # NaNs, so that what is read beyond an input shows
            self.memory[:before] = 0xFF
            self.memory[before + size :] = 0xFF

    @property
    def content(self) -> torch.Tensor:
        return self.memory[self.inside]

    def copy_back(self) -> None:
        self.arena[self.whole] = self.memory

    def has_changed(self) -> bool:
        return not torch.equal(self.content, self.arena[self.place])


class Kernel:
    def __init__(self, call: dict[str, Any]) -> None:
        path = FOLDER / "kernel.py"
        module = types.ModuleType("kernel")
        module.__file__ = str(path)
        module.__dict__.update({f"LAUNCH_{name}": value for name, value in call["launch_parameters"].items()})
        sys.modules["kernel"] = module  # Triton looks functions up by their module
        linecache.checkcache(str(path))
        exec(compile(path.read_text(), str(path), "exec"), module.__dict__)
        for name in filter(None, (call["entry"], call["prepare"])):
            if not callable(module.__dict__.get(name)):
                raise ValueError(f"the source defines no function {name}")
        self.entry = module.__dict__[call["entry"]]
        self.prepare = module.__dict__[call["prepare"]] if call["prepare"] else None

    def call(self, arguments: list[Any], watch: HostWatch) -> None:
        self.watch = watch
        try:
            with watch:
                self.entry(*arguments)
        except Exception as error:
            if not watch.calls:
                raise_for_kernel(error)
        watch.finish()
        if watch.calls:
            fail(LIBRARY_CALL, f"the kernel had torch compute: {', '.join(sorted(set(watch.calls))[:5])}")
        if not computes_as_before():
            fail(CHANGED_FLOAT_STATE, "the kernel left rounding or denormal numbers changed")

    def watch_launches(self) -> None:
        from interpreter_races import RaceWatch
        from triton.runtime import interpreter

        executor = interpreter.GridExecutor
        launch, races = executor.__call__, RaceWatch()

        def watched(grid: Any, *args: Any, **kwargs: Any) -> Any:
            self.watch.begin_launch([*args, *kwargs.values()])
            races.begin()
            try:
                result = launch(grid, *args, **kwargs)
            finally:
                self.watch.end_launch()
            if wrong := races.end():
                fail(RACE, f"{grid.fn.__name__} depends on the order of its programs: {wrong}")
            return result

        executor.__call__ = watched
        for name in ("_init_args_hst", "_restore_args_dev"):  # the interpreter itself has torch copy
            setattr(executor, name, unwatched(getattr(executor, name)))


class Runner:
    def __init__(self, mode: str, call: dict[str, Any], inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        self.segments = inputs, outputs
        self.axis_names = call["axes"]
        self.tensors = [Tensor(**{**each, "dtype": getattr(torch, each["dtype"])}) for each in call["tensors"]]
        self.parameters = [tensor for tensor in self.tensors if tensor.role == "parameter"]
        self.mode = mode
        self.kernel = Kernel(call)
        if mode == INTERPRET:
            self.kernel.watch_launches()
        self.prepared: list[Any] = []
        self.parameter_slots: dict[int, Slot] = {}
        self.axes: dict[str, int] = {}
        self.calls: list[tuple[int, list[Slot]]] = []

    def lay_out(self, words: tuple[int, ...]) -> None:
        axes_at = 3
        axis_count = words[2]
        self.axes = dict(zip(self.axis_names, words[axes_at : axes_at + axis_count], strict=True))
        count, per_call = words[axes_at + axis_count], words[axes_at + axis_count + 1]
        at = axes_at + axis_count + 2
        self.calls = []
        for _ in range(count):
            places = words[at + 1 : at + 1 + per_call]
            slots = [self.slot(tensor, place) for tensor, place in zip(self.tensors, places, strict=True)]
            self.calls.append((words[at], slots))
            at += 1 + per_call

    def slot(self, tensor: Tensor, place: int) -> Slot:
        if tensor.role == "parameter" and place in self.parameter_slots:
            return self.parameter_slots[place]
        arena, offset = self.segments[place >> 63], place & ~OUTPUTS_BIT
        size = tensor.size_bytes(self.axes)
        if offset + size > len(arena):
            fail(MACHINERY_FAILED, "a tensor lies outside the arena")
        slot = Slot(arena, offset, size, is_result=tensor.role in ("state", "output"))
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
            try:
                result = self.kernel.prepare(*views)  # type: ignore[misc]
                parts = result if type(result) is tuple else (result,)
                for part in parts:  # a tensor of a class of its own could compute where it is read
                    if type(part) is not torch.Tensor:
                        raise TypeError(f"prepare gave {type(part).__name__}: a tensor or a tuple of tensors is wanted")
            except Exception as error:
                raise_for_kernel(error)
            self.prepared.append(result)
            total += sum(tensor.nbytes for tensor in parts)
        return total

    def run(self, first: int, count: int) -> None:
        for parameter_set, slots in self.calls[first : first + count]:
            arguments: list[Any] = [
                tensor.view(slot.content, self.axes) for tensor, slot in zip(self.tensors, slots, strict=True)
            ]
            if self.kernel.prepare is not None:
                arguments.append(self.prepared[parameter_set])
            watch = HostWatch(arguments, sees_memory=self.mode == INTERPRET)
            self.kernel.call([*arguments, *self.axes.values()], watch)

    def copy_back(self, first: int, count: int) -> None:
        for _, slots in self.calls[first : first + count]:
            for slot in slots:
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


def unwatched(function: Any) -> Any:
    def call(*args: Any, **kwargs: Any) -> Any:
        with _disable_current_modes():
            return function(*args, **kwargs)

    return call


def computes_as_before() -> bool:
    """Whether numbers are rounded to nearest and denormal ones are kept."""
    one, half_ulp, least = float("1"), float("1.1e-16"), float("5e-324")
    return one + half_ulp == one == -(-one - half_ulp) and one + 1.9 * half_ulp > one and least * one > 0


def receive(count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = _read(0, count - len(content))
        if not piece:
            _exit(0)
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
    if mode == INTERPRET:
        prepare_interpreter()
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        runner = Runner(mode, json.loads((FOLDER / "call.json").read_text()), inputs, outputs)
    except Exception as error:
        fail_with(LOAD_FAILED, error, "cannot load the kernel:")
    serve(runner, replies)


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
            runner.run(first, count)
        _write(replies, REPLY.pack(nonce, value))
        if kind == RUN:
            runner.copy_back(first, count)


if __name__ == "__main__":
    main()
