"""FakeGpu: a Device of pure Python: streams that run when they are waited for, a clock, an L2, and faults that stay.

Kernels are Python functions given to `launch`. It has the rules that the logic on the boundary depends on, not a GPU's
speed: work of a stream runs in order, work of different streams side by side, and nothing has happened before somebody
waits for it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import NoReturn

import torch

from kernel_sandbox.runners.gpu_device import GUARD_BYTES, DeviceFacts, DeviceFault, Moment

FACTS = DeviceFacts(
    uuid="GPU-00000000-0000-0000-0000-00000000fa4e",
    model="Fake GPU 1",
    architecture="sm_90",
    multiprocessors=4,
    memory_bytes=1 << 30,
    l2_bytes=1 << 20,
    driver="no driver",
)


def _nothing() -> None: ...


@dataclass
class Work:
    us: float
    """With what it reads in L2."""
    run: Callable[[], None] = _nothing
    reads: tuple[str, ...] = ()
    """Names of what it wants in L2."""
    persists: bool = False
    """Asks L2 to keep what it reads."""
    moment: "FakeMoment | None" = None


@dataclass
class FakeMoment:
    gpu: "FakeGpu"
    at_us: float | None = None

    def us_since(self, earlier: Moment) -> float:
        self.gpu.synchronise()
        assert isinstance(earlier, FakeMoment)
        assert self.at_us is not None
        assert earlier.at_us is not None
        return self.at_us - earlier.at_us


@dataclass
class FakeAllocation:
    gpu: "FakeGpu"
    whole: torch.Tensor

    @property
    def content(self) -> torch.Tensor:
        return self.whole[GUARD_BYTES : len(self.whole) - GUARD_BYTES]

    def is_damaged(self) -> bool:
        self.gpu.synchronise()
        return bool((self.whole[:GUARD_BYTES] != 0xFF).any() or (self.whole[-GUARD_BYTES:] != 0xFF).any())


@dataclass
class FakeGraph:
    gpu: "FakeGpu"
    works: Sequence[tuple[int, Work]]

    def replay(self) -> None:
        self.gpu.host_us += self.gpu.launch_us
        for stream, work in self.works:
            self.gpu.enqueue(stream, work)


@dataclass
class FakeGpu:
    facts: DeviceFacts = FACTS
    torch_device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    launch_us: float = 3.0
    """What a launch costs the host; a replay of a graph costs it once."""
    miss_us: float = 50.0
    """What it costs to read one thing from memory instead of L2."""
    host_us: float = 0.0
    allocations: list[FakeAllocation] = field(default_factory=list)
    l2: set[str] = field(default_factory=set)
    persisting: set[str] = field(default_factory=set)
    free_memory_is_poisoned: bool = False
    flushes: int = 0
    _streams: dict[int, list[tuple[float, Work]]] = field(default_factory=dict)
    _done_us: dict[int, float] = field(default_factory=dict)
    _capturing: list[tuple[int, Work]] | None = None
    _fault: DeviceFault | None = None

    # What a kernel's host side does

    def launch(
        self,
        run: Callable[[], None],
        *,
        us: float,
        stream: int = 0,
        reads: Sequence[str] = (),
        persists: bool = False,
    ) -> None:
        work = Work(us=us, run=run, reads=tuple(reads), persists=persists)
        if self._capturing is not None:
            self._capturing.append((stream, work))
        else:
            self.host_us += self.launch_us
            self.enqueue(stream, work)

    def fault(self, message: str) -> NoReturn:
        """Called by a kernel: what an illegal address does."""
        raise DeviceFault(message)

    def empty(self, size: int) -> torch.Tensor:
        """What a kernel gets that allocates: what others left there, unless that was poisoned."""
        return torch.full((size,), 0xFF if self.free_memory_is_poisoned else 0x42, dtype=torch.uint8)

    # Device

    def allocate(self, content: torch.Tensor) -> FakeAllocation:
        self._refuse_after_fault()
        whole = torch.full((len(content) + 2 * GUARD_BYTES,), 0xFF, dtype=torch.uint8)
        whole[GUARD_BYTES : GUARD_BYTES + len(content)] = content
        allocation = FakeAllocation(self, whole)
        self.allocations.append(allocation)
        return allocation

    def read(self, memory: torch.Tensor) -> torch.Tensor:
        self.synchronise()
        return memory.clone()

    def write(self, memory: torch.Tensor, content: torch.Tensor) -> None:
        self.synchronise()
        memory.copy_(content)

    def poison_free_memory(self) -> None:
        self.synchronise()
        self.free_memory_is_poisoned = True

    def synchronise(self) -> None:
        self._refuse_after_fault()
        for stream, queue in self._streams.items():
            while queue:
                queued_us, work = queue.pop(0)
                try:
                    self._run(stream, queued_us, work)
                except DeviceFault as fault:
                    self._fault = fault
                    raise
        self.host_us = max([self.host_us, *self._done_us.values()])

    def settle_cache(self, *, is_cold: bool) -> None:
        self._refuse_after_fault()
        self.enqueue(0, Work(us=0.0, run=self.persisting.clear))
        if is_cold:
            self.flushes += 1
            self.enqueue(0, Work(us=10.0, run=lambda: self.l2.intersection_update(self.persisting)))

    def hold(self) -> None:
        self._refuse_after_fault()
        self.enqueue(0, Work(us=100.0))

    def mark(self) -> FakeMoment:
        self._refuse_after_fault()
        moment = FakeMoment(self)
        self.enqueue(0, Work(us=0.0, moment=moment))
        return moment

    def capture(self, call: Callable[[], None]) -> FakeGraph:
        self._refuse_after_fault()
        self._capturing = []
        try:
            call()
            return FakeGraph(self, tuple(self._capturing))
        finally:
            self._capturing = None

    def stream(self) -> int:
        return 0

    # The simulation

    def enqueue(self, stream: int, work: Work) -> None:
        self._streams.setdefault(stream, []).append((self.host_us, work))

    def _run(self, stream: int, queued_us: float, work: Work) -> None:
        began_us = max(queued_us, self._done_us.get(stream, 0.0))
        missing = [name for name in work.reads if name not in self.l2]
        self._done_us[stream] = began_us + work.us + self.miss_us * len(missing)
        self.l2.update(work.reads)
        if work.persists:
            self.persisting.update(work.reads)
        if work.moment is not None:
            work.moment.at_us = self._done_us[stream]
        work.run()

    def _refuse_after_fault(self) -> None:
        if self._fault is not None:
            raise self._fault
