"""DeviceSlot and BareSlot: one tensor of a call on a GPU; CudaKernel: a CUDA kernel's host side, called with such.

Runs beside python_runner.py in a sandbox. It decides nothing: what a kernel wrote goes back to the arena, for the judge
to look at.
"""

import ctypes
from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from kernel_sandbox.runners.gpu_device import Device

GUARD_BYTES = 256
"""As in kernel_sandbox/arena.py: what lies beside an output travels with it, so that a write there is seen."""
_POINTERS_ALIGNED_BYTES = 256


class DeviceSlot:
    """A copy of one place of the arena, a guard of the arena's at either end and the device's own around both."""

    def __init__(self, device: "Device", arena: torch.Tensor, offset: int, size: int, *, is_result: bool) -> None:
        self._device = device
        self._arena = arena
        self._place = slice(offset, offset + size)
        self._before, self._after = min(GUARD_BYTES, offset), min(GUARD_BYTES, len(arena) - offset - size)
        self._around = slice(offset - self._before, offset + size + self._after)
        self.is_result = is_result
        # The tensor itself starts at a multiple of what device memory is aligned to, wherever it lies in the arena.
        self._padding = -self._before % _POINTERS_ALIGNED_BYTES
        self._inside = slice(self._padding + self._before, self._padding + self._before + size)
        # NaNs beside an input, so that what is read beyond it shows.
        self._sent = torch.full((self._inside.stop + self._after,), 0xFF, dtype=torch.uint8)
        self._read_arena()
        self._memory = device.allocate(self._sent)

    @property
    def content(self) -> torch.Tensor:
        """[bytes] uint8, on the device."""
        return self._memory.content[self._inside]

    def refill(self) -> None:
        """With what lies in the arena now, at the same address of the device."""
        self._read_arena()
        self._device.write(self._memory.content, self._sent)

    def _read_arena(self) -> None:
        if self.is_result:
            self._sent[self._padding :] = self._arena[self._around]
        else:
            self._sent[self._inside] = self._arena[self._place]

    def copy_back(self) -> None:
        """With the arena's guards; those of the device that were written to show as a broken one of the arena's."""
        left = self._device.read(self._memory.content)
        if self._memory.is_damaged() or not torch.equal(left[: self._padding], self._sent[: self._padding]):
            broken = slice(self._inside.stop, None) if self._after else slice(self._padding, self._inside.start)
            left[broken] = ~self._sent[broken]
        self._arena[self._around] = left[self._padding :]

    def has_changed(self) -> bool:
        """Also the guards: who writes beside an input writes to it."""
        return self._memory.is_damaged() or not torch.equal(self._device.read(self._memory.content), self._sent)


class BareSlot:
    """A copy of one place of the arena in memory of exactly its size, for a tool that sees every access: between guards
    what lies one element beyond a tensor would be memory like any other."""

    def __init__(self, device: "Device", arena: torch.Tensor, offset: int, size: int, *, is_result: bool) -> None:
        self._device = device
        self._arena = arena
        self._place = slice(offset, offset + size)
        self.is_result = is_result
        self.content = torch.empty(size, dtype=torch.uint8, device=device.torch_device)
        """[bytes] uint8, on the device."""
        self.refill()

    def refill(self) -> None:
        """With what lies in the arena now."""
        self._device.write(self.content, self._arena[self._place])

    def copy_back(self) -> None:
        self._arena[self._place] = self._device.read(self.content)

    def has_changed(self) -> bool:
        return not torch.equal(self._device.read(self.content), self._arena[self._place])


class CudaKernel:
    """A shared object with `compiler_agent_call` and, for a kernel with prepare, its two functions."""

    def __init__(self, path: str, *, has_prepare: bool) -> None:
        """Raises OSError or AttributeError for an object that cannot be loaded or lacks a function."""
        self._library = ctypes.CDLL(path)
        self._call = self._library.compiler_agent_call
        self._call.restype = None
        if has_prepare:
            self._library.compiler_agent_prepared_bytes.restype = ctypes.c_int64
            self._library.compiler_agent_prepare.restype = None

    def prepare(self, device: "Device", parameters: Sequence[torch.Tensor]) -> torch.Tensor:
        """[bytes] uint8 on the device, what the kernel's `prepare` wrote there. Raises ValueError for its size."""
        size = int(self._library.compiler_agent_prepared_bytes())
        if not 0 <= size < device.facts.memory_bytes:
            raise ValueError(f"prepare asks for {size} bytes")
        prepared = torch.full((max(size, 1),), 0xFF, dtype=torch.uint8, device=device.torch_device)
        self._library.compiler_agent_prepare(
            _pointers(parameters), ctypes.c_void_p(prepared.data_ptr()), ctypes.c_void_p(device.stream())
        )
        device.synchronise()
        return prepared

    def call(
        self, device: "Device", tensors: Sequence[torch.Tensor], prepared: torch.Tensor | None, sizes: Sequence[int]
    ) -> None:
        """Launches on the current stream; `tensors` are inputs and outputs in task order."""
        self._call(
            _pointers(tensors),
            ctypes.c_void_p(prepared.data_ptr() if prepared is not None else None),
            (ctypes.c_int64 * len(sizes))(*sizes),
            ctypes.c_void_p(device.stream()),
        )


def _pointers(tensors: Sequence[torch.Tensor]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(tensors))(*(tensor.data_ptr() for tensor in tensors))
