"""KernelRunner: one side of a judgement or a race; it calls a kernel (or a baseline) on slots of the shared arena.

The arena is two shared-memory segments that judge and runner map: `inputs`, which the runner can only read, and
`outputs`, which holds output slots and the state inputs. The runner returns nothing that counts but the bytes there.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from kernel_sandbox.arena import Place as Place
from kernel_sandbox.arena import Segment as Segment
from kernel_sandbox.sandbox import Finished


@dataclass(frozen=True, slots=True, kw_only=True)
class Call:
    tensors: tuple[Place, ...]
    """Places of `task.inputs`, then of `task.outputs`, in order."""
    parameter_set: int
    """Index into the sets given to `prepare`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    elapsed_ns: int
    size_bytes: int
    """Memory that all prepared sets take together; 0 for a kernel without `prepare`."""


class RunnerEnded(Exception):
    """The runner died, was killed, or broke the protocol. `finished` says how, for the verdict."""

    def __init__(self, message: str, finished: Finished) -> None:
        super().__init__(message)
        self.finished = finished


class NoGraph(Exception):
    """No CUDA graph can hold the kernel's calls."""


class KernelRunner(Protocol):
    """Every method raises RunnerEnded when the other side is gone or answers nonsense."""

    def prepare(self, parameter_sets: Sequence[tuple[Place, ...]]) -> Prepared:
        """Lets the kernel repack each set of parameters (places in task order). Once, before the first `lay_out`."""
        ...

    def lay_out(self, axes: Sequence[int], calls: Sequence[Call]) -> None:
        """Makes a batch of calls known, all with the same axis sizes (in `task.axes` order). Never timed."""
        ...

    def rehearse(self, first: int, count: int) -> None:
        """Makes ready what `run` of these calls will need, after each `lay_out`. Raises NoGraph."""
        ...

    def run(self, first: int, count: int) -> int:
        """Runs `count` calls of the layout from `first` on; ns by the judge's clock from request to reply."""
        ...

    def run_null(self, count: int) -> int:
        """As `run` without the calls: what is no kernel's time."""
        ...

    def device_ns(self) -> int | None:
        """Of the last `run`, by a device's own clock, for which nobody vouches; None where there is no device."""
        ...

    def take_in(self) -> None:
        """Has a frozen runner copy what lies in the arena now, where its calls do not find it there."""
        ...

    def collect(self) -> None:
        """Returns when all that the last `run` left lies in the arena: a device's memory is copied after the reply."""
        ...

    def freeze(self) -> None: ...

    def thaw(self) -> None: ...

    def cpu_time_ns(self) -> int:
        """What the runner's threads have run so far, by the kernel's account."""
        ...

    def close(self) -> None: ...
