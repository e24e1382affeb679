"""HostWatch: what a kernel's host side does with PyTorch and with memory while it is called.

Memory that a launch reads must come from the call's own tensors or from an allocation seen here, and nothing but a
launch or a fill may change it: so that what numpy, a thread or another library computes shows too. It is a trip-wire:
what runs in the same process can take it down.

Runs inside the sandbox: torch and the standard library, no import of the project.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

# What the host side of a kernel may ask of torch: memory, its address and what is in it before the kernel runs.
UNDEFINED = {"empty", "empty_like", "empty_strided", "new_empty", "new_empty_strided"}
FILLED = {"zeros", "zeros_like", "new_zeros", "full", "full_like", "new_full", "ones", "ones_like", "new_ones"}
FILLS = {"zero_", "fill_"}
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
VIEWS |= {"unfold", "diagonal"}

MOST_FILLS = 64
"""In a call: filled element by element, memory could be given any content."""
MOST_KEPT_BYTES = 1 << 20
"""Larger memory is known, but not looked at for changes."""


@dataclass
class Memory:
    whole: torch.Tensor
    """`[bytes]`; it keeps the memory from being given to somebody else."""
    content: torch.Tensor | None

    def has_changed(self) -> bool:
        return self.content is not None and not torch.equal(self.content, self.whole)

    def accept(self) -> None:
        if self.content is not None:
            self.content.copy_(self.whole)


class HostWatch(TorchDispatchMode):
    """Around one call: enter it, tell it of launches, read `calls` when it has been left."""

    def __init__(self, tensors: Iterable[Any], *, sees_memory: bool = False) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._fills = 0
        self._sees_memory = sees_memory
        self._memory: dict[int, Memory] = {}
        for tensor in tensors_in(tensors):
            self._know(tensor)

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Else the first call of all imports the compiler, for seconds.
        return False

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        namespace, _, name = function._schema.name.partition("::")
        if namespace != "aten" or name not in UNDEFINED | FILLED | FILLS | VIEWS:
            self.calls.append(function._schema.name)
        self._fills += name in FILLS
        if self._fills > MOST_FILLS:
            self.calls.append(f"more than {MOST_FILLS} fills")
        if name in FILLS:
            self._find_changes()  # a fill would hide what else was written to the same memory
        result = function(*args, **(kwargs or {}))
        if self._sees_memory and isinstance(result, torch.Tensor):
            if name in UNDEFINED:
                bytes_of(result).fill_(0xFF)
            if name in UNDEFINED | FILLED or (name in FILLS and _address(result) in self._memory):
                self._know(result)
        return result

    def begin_launch(self, arguments: Any) -> None:
        """`arguments`: what is launched on, tensors and all else."""
        self._find_changes()
        if self._sees_memory:
            strange = [each for each in tensors_in(arguments) if each.numel() and _address(each) not in self._memory]
            self.calls += ["a launch on memory that this call has not allocated"] * bool(strange)

    def end_launch(self) -> None:
        with _disable_current_modes():
            for memory in self._memory.values():
                memory.accept()

    def finish(self) -> None:
        self._find_changes()

    def _find_changes(self) -> None:
        with _disable_current_modes():
            has_changed = any(memory.has_changed() for memory in self._memory.values())
        if has_changed:
            self.calls.append("memory written by something else than a launch")
            self.end_launch()

    def _know(self, tensor: torch.Tensor) -> None:
        if self._sees_memory and tensor.numel():
            whole = bytes_of(tensor)
            self._memory[_address(tensor)] = Memory(whole, whole.clone() if len(whole) <= MOST_KEPT_BYTES else None)


def computes_as_before() -> bool:
    """Whether numbers are rounded to nearest and denormal ones are kept."""
    one, half_ulp, least = float("1"), float("1.1e-16"), float("5e-324")
    return one + half_ulp == one == -(-one - half_ulp) and one + 1.9 * half_ulp > one and least * one > 0


def tensors_in(values: Any) -> Iterator[torch.Tensor]:
    """Also those in tuples and in Triton's descriptors."""
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, tuple | list):
            yield from tensors_in(value)
        elif isinstance(getattr(value, "base", None), torch.Tensor):
            yield value.base


def bytes_of(tensor: torch.Tensor) -> torch.Tensor:
    """All of the memory that a tensor is part of: `[bytes]` uint8."""
    storage = tensor.untyped_storage()
    return torch.empty(0, dtype=torch.uint8, device=tensor.device).set_(storage, 0, (storage.nbytes(),), (1,))


def _address(tensor: torch.Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
