"""HostDevice: the CPU behind the boundary of gpu_device.py, for kernels that an interpreter runs.

Runs beside python_runner.py in a sandbox. What the interpreter takes says nothing of a kernel's speed: the clock is
there, and nobody may use it to compare.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from gpu_device import GuardedAllocation

_HOLD_S = 0.002


@dataclass(frozen=True)
class HostMoment:
    at_us: float

    def us_since(self, earlier: "HostMoment") -> float:
        return self.at_us - earlier.at_us


class HostDevice:
    torch_device = torch.device("cpu")

    def allocate(self, content: torch.Tensor) -> GuardedAllocation:
        return GuardedAllocation(self, content)

    def read(self, memory: torch.Tensor) -> torch.Tensor:
        return memory.clone()

    def write(self, memory: torch.Tensor, content: torch.Tensor) -> None:
        memory.copy_(content)

    def poison_free_memory(self) -> None: ...

    def synchronise(self) -> None: ...

    def settle_cache(self, *, is_cold: bool) -> None: ...

    def hold(self) -> None:
        time.sleep(_HOLD_S)

    def mark(self) -> HostMoment:
        return HostMoment(time.perf_counter_ns() / 1000)

    def capture(self, call: Callable[[], None]) -> "HostGraph":
        return HostGraph(call)

    def stream(self) -> int:
        return 0


@dataclass(frozen=True)
class HostGraph:
    replay: Callable[[], None]
