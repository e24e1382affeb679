"""Calls a kernel with a Python host side on copies of tensors in shared memory; see candidates/judge/python_runner.py.

    python_runner.py MODE INPUTS_FD INPUTS_BYTES OUTPUTS_FD OUTPUTS_BYTES

MODE is `interpret` (Triton on the CPU). The kernel and what it is called with are in `call.json` and `kernel.py` beside
this file. It speaks the protocol of cpp_runner.cpp, but answers a RUN when the calls are done and copies what they left
into the arena afterwards, before it reads the next request.

Runs inside the sandbox: the standard library, torch and Triton, no import of the project. Nothing that it says is
believed but "the calls returned"; what it checks of the kernel (library calls, inputs) stands beside the rules that its
source is held to outside.
"""

import json
import linecache
import mmap
import os
import struct
import sys
import traceback
import types
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
GUARD_BYTES = 256
"""As in kernel_sandbox/arena.py: what lies beside an output travels with it, so that a write there is seen."""

MACHINERY_FAILED, LOAD_FAILED, LIBRARY_CALL, CHANGED_INPUTS, KERNEL_RAISED, CANNOT_INTERPRET = 70, 71, 73, 74, 75, 76
HELLO, PREPARE, LAY_OUT, RUN = range(4)
REQUEST, REPLY = struct.Struct("=QIIII"), struct.Struct("=QQ")
OUTPUTS_BIT = 1 << 63

# What the host side of a kernel may ask of torch: memory, its address and what is in it before the kernel runs.
ALLOCATIONS = {"empty", "empty_like", "empty_strided", "new_empty", "zeros", "zeros_like", "full", "zero_", "fill_"}
ALLOCATIONS |= {"new_zeros", "new_full", "full_like"}
VIEWS = {
    "view",
    "as_strided",
    "transpose",
    "t",
    "permute",
    "slice",
    "select",
    "unsqueeze",
    "squeeze",
    "expand",
    "alias",
}
VIEWS |= {"detach", "_unsafe_view", "_reshape_alias", "unbind", "split", "split_with_sizes", "chunk", "narrow"}


def fail(status: int, what: str) -> None:
    sys.stderr.write(f"{what}\n")
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__" and sys.argv[1] == "interpret":
    os.environ["TRITON_INTERPRET"] = "1"  # read when Triton is imported

import torch  # noqa: E402
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes  # noqa: E402

warnings.filterwarnings("ignore", message="The given buffer is not writable")


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


class LibraryWatch(TorchDispatchMode):
    """Notes what torch computes for the host side of a kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else the first call of all imports the compiler, for seconds.
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, _, name = function._schema.name.partition("::")
        if namespace != "aten" or name not in ALLOCATIONS | VIEWS:
            self.calls.append(function._schema.name)
        return function(*args, **(kwargs or {}))


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

    def call(self, arguments: list[Any]) -> None:
        watch = LibraryWatch()
        try:
            with watch:
                self.entry(*arguments)
        except Exception as error:
            if not watch.calls:
                raise_for_kernel(error)
        if watch.calls:
            fail(LIBRARY_CALL, f"the kernel had torch compute: {', '.join(sorted(set(watch.calls))[:5])}")


class Runner:
    def __init__(self, call: dict[str, Any], inputs: torch.Tensor, outputs: torch.Tensor) -> None:
        self.segments = inputs, outputs
        self.axis_names = call["axes"]
        self.tensors = [Tensor(**{**each, "dtype": getattr(torch, each["dtype"])}) for each in call["tensors"]]
        self.parameters = [tensor for tensor in self.tensors if tensor.role == "parameter"]
        self.kernel = Kernel(call)
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
            except Exception as error:
                raise_for_kernel(error)
            self.prepared.append(result)
            total += sum(tensor.nbytes for tensor in (result if isinstance(result, tuple) else (result,)))
        return total

    def run(self, first: int, count: int) -> None:
        for parameter_set, slots in self.calls[first : first + count]:
            arguments: list[Any] = [
                tensor.view(slot.content, self.axes) for tensor, slot in zip(self.tensors, slots, strict=True)
            ]
            if self.kernel.prepare is not None:
                arguments.append(self.prepared[parameter_set])
            self.kernel.call([*arguments, *self.axes.values()])

    def copy_back(self, first: int, count: int) -> None:
        for _, slots in self.calls[first : first + count]:
            for slot in slots:
                if slot.is_result:
                    slot.copy_back()
                elif slot.has_changed():
                    fail(CHANGED_INPUTS, "the kernel wrote to an input")


def raise_for_kernel(error: Exception) -> None:
    """Ends the process with what the kernel raised, or with what the interpreter cannot do."""
    cause = error.__cause__ if type(error).__name__ == "InterpreterError" else None
    if cause is not None and not isinstance(cause, AssertionError):
        fail_with(CANNOT_INTERPRET, cause, "the interpreter cannot run it:")
    fail_with(KERNEL_RAISED, cause or error, "the kernel raised")


def fail_with(status: int, error: BaseException, what: str) -> None:
    trace = "".join(traceback.format_exception(error))[-4000:]
    fail(status, f"{trace}\n{what} {type(error).__name__}: {str(error)[:500]}")


def prepare_interpreter() -> None:
    sys.path.insert(0, str(FOLDER))
    import interpreter_repairs
    from triton.runtime import interpreter

    interpreter_repairs.repair()
    launch = interpreter.GridExecutor.__call__

    def unwatched(self: Any, *args: Any, **kwargs: Any) -> Any:
        # The interpreter itself has torch copy; a kernel's own body is Triton's language, as it compiled.
        with _disable_current_modes():
            return launch(self, *args, **kwargs)

    interpreter.GridExecutor.__call__ = unwatched


def receive(count: int) -> bytes:
    content = b""
    while len(content) < count:
        piece = os.read(0, count - len(content))
        if not piece:
            os._exit(0)
        content += piece
    return content


def map_segment(descriptor: str, size: str, protection: int) -> torch.Tensor:
    memory = mmap.mmap(int(descriptor), int(size), prot=protection)
    return torch.frombuffer(memory, dtype=torch.uint8)


def main() -> None:
    _, mode, *segments = sys.argv
    replies = os.dup(1)
    os.dup2(2, 1)  # what the kernel prints is log
    torch.set_num_threads(1)
    inputs = map_segment(segments[0], segments[1], mmap.PROT_READ)
    outputs = map_segment(segments[2], segments[3], mmap.PROT_READ | mmap.PROT_WRITE)
    if mode == "interpret":
        prepare_interpreter()
    try:
        runner = Runner(json.loads((FOLDER / "call.json").read_text()), inputs, outputs)
    except Exception as error:
        fail_with(LOAD_FAILED, error, "cannot load the kernel:")
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
        os.write(replies, REPLY.pack(nonce, value))
        if kind == RUN:
            runner.copy_back(first, count)


if __name__ == "__main__":
    main()
