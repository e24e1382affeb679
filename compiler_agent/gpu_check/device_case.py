"""Runs one kernel of `cases` on a device, between guards, and says what it did there."""

import random
from collections.abc import Callable
from dataclasses import dataclass

import torch

from candidates.candidate import LanguageName
from candidates.error_bound import allowed_error
from candidates.reference import run_oracle
from compiler_agent.gpu_check.cases import WIDTH, Case, case_task
from compiler_agent.gpu_check.contests import load_source
from kernel_sandbox.runners.device_slots import GUARD_BYTES, CudaKernel, DeviceSlot
from kernel_sandbox.runners.gpu_device import Device

ROWS = 8
_POISON = 0xFF
"""NaN in float32."""
Call = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], None]
"""x [rows, width], weight [width], y [rows, width], all float32 on the device."""


@dataclass(frozen=True, slots=True)
class Found:
    what: str
    """`right`, or a reason for a rejection in the judge's words."""
    detail: str = ""


def open_kernel(device: Device, case: Case, artifact: str | None) -> Call:
    """`artifact`: a CUDA kernel's shared object."""
    if case.language is LanguageName.CUDA:
        if artifact is None:
            raise ValueError(f"{case.file} was not compiled")
        kernel = CudaKernel(artifact, has_prepare=False)
        return lambda x, weight, y: kernel.call(device, [x, weight, y], None, [ROWS])
    host = load_source(case.source(), case.name, {"BLOCK": WIDTH, "num_warps": 4})
    return lambda x, weight, y: host(x, weight, y, ROWS)


def run_case(device: Device, call: Call, seed: int) -> Found:
    """Raises DeviceFault."""
    device.poison_free_memory()
    generator = torch.Generator().manual_seed(random.Random(seed).getrandbits(63))
    x, weight = torch.randn(ROWS, WIDTH, generator=generator), torch.randn(WIDTH, generator=generator)
    size = x.nbytes
    place = GUARD_BYTES
    # x, weight and y, each with room for its guards.
    arena = torch.full((4 * (size + 2 * GUARD_BYTES),), _POISON, dtype=torch.uint8)
    slots = []
    for content, is_result in ((x, False), (weight, False), (None, True)):
        length = size if content is None else content.nbytes
        if content is not None:
            arena[place : place + length] = content.reshape(-1).view(torch.uint8)
        slots.append((DeviceSlot(device, arena, place, length, is_result=is_result), place, length))
        place += length + 2 * GUARD_BYTES
    views = [slot.content.view(torch.float32) for slot, _, _ in slots]
    call(views[0].view(ROWS, WIDTH), views[1], views[2].view(ROWS, WIDTH))
    device.synchronise()
    if any(slot.has_changed() for slot, _, _ in slots[:2]):
        return Found("changed_inputs")
    output, at, length = slots[2]
    output.copy_back()
    guards = torch.cat((arena[at - GUARD_BYTES : at], arena[at + length : at + length + GUARD_BYTES]))
    if bool((guards != _POISON).any()):
        return Found("wrote_out_of_bounds")
    return _compare(arena[at : at + length].clone().view(torch.float32).view(ROWS, WIDTH), x, weight)


def run_bare(device: Device, call: Call) -> Found:
    """With each tensor in memory of exactly its size, for whoever watches accesses. Raises DeviceFault."""
    x = torch.ones(ROWS, WIDTH, device=device.torch_device)
    weight, y = torch.ones(WIDTH, device=device.torch_device), torch.empty_like(x)
    call(x, weight, y)
    device.synchronise()
    return Found("ran")


def _compare(y: torch.Tensor, x: torch.Tensor, weight: torch.Tensor) -> Found:
    unwritten = int(torch.isnan(y).sum())
    if unwritten:
        return Found("output_not_written", f"{unwritten} of {y.numel()} elements")
    task = case_task("gpu_check", "sm_90")
    exact = run_oracle(task, {"x": x, "weight": weight})["y"]
    worst = float(((y.double() - exact).abs() / allowed_error(task.error_bound, exact, torch.float32)).max())
    return Found("right" if worst <= 1 else "wrong_values", f"{worst:.3g} of the allowed error")
