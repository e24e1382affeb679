"""KernelAgent: whoever writes candidates, seen from the loop that judges them."""

from collections.abc import Iterable, Sequence
from typing import Literal, Protocol

from pydantic import Field

from candidates.candidate import Proposal
from candidates.gpu_counters import WorkloadCounters
from candidates.measurement import Measurement
from candidates.record import Record
from candidates.task import KernelTask
from candidates.verdict import Accepted, Rejected, Verdict


class Attempt(Record):
    """A proposal and what came of it. `measurement` is None unless the verdict is Accepted."""

    proposal: Proposal
    verdict: Verdict
    measurement: Measurement | None = None
    counters: WorkloadCounters | None = None
    """Of a GPU's hardware, where the attempt was measured on one that lets them be read."""

    @property
    def speedup(self) -> float | None:
        """Traffic-weighted, as screened; None for what was not accepted."""
        if not isinstance(self.verdict, Accepted) or self.measurement is None:
            return None
        return self.measurement.traffic_weighted_speedup


class Budget(Record):
    """What is left for this op, and who may be paid for it."""

    seconds: float = Field(ge=0)
    attempts: int = Field(ge=0)
    round_id: str = ""
    """Names this call of `propose`: the same id again (after a kill) must not be paid for again."""
    models: tuple[str, ...] = ()
    """Endpoints that a paid agent may ask."""
    accounts: tuple[str, ...] = ()
    """Spending accounts, opened with their caps: the run's and the op's. What is left is in their balances."""
    pending: tuple[Proposal, ...] = ()
    """Proposed and still being judged, of an agent that goes ahead: no attempts of theirs are known yet."""
    recalls_past: bool = True
    """False: nothing of earlier searches is told to a model, so that models that are compared start alike."""


class Proposals(Record):
    kind: Literal["proposals"] = "proposals"
    proposals: tuple[Proposal, ...] = Field(min_length=1)
    may_go_ahead: bool = False
    """Whether the agent may be asked for the next ones while these are judged; they are in `Budget.pending` then."""


class Stop(Record):
    """No more candidates from this agent."""

    kind: Literal["stop"] = "stop"
    reason: Literal[
        "no_program",
        "floor_reached",
        "no_progress",
        "space_exhausted",
        "budget",
        "no_kernel",
        "model_unavailable",
        "needs_device",
    ]
    """`no_kernel`: the models' replies hold none, however often they are asked. `needs_device`: kernels wait for one,
    and nothing measured here would guide another."""
    message: str


FLOOR_SHARE_TO_STOP = 0.95
"""What is left above the floor from here on is not worth an attempt."""


def fastest_first(attempts: Iterable[Attempt]) -> list[Attempt]:
    """Those that were measured; of equal ones the earlier first."""
    measured = [attempt for attempt in attempts if attempt.speedup is not None]
    return sorted(measured, key=lambda attempt: -(attempt.speedup or 0.0))


def stop_for_device(attempts: Sequence[Attempt]) -> Stop | None:
    """Where kernels wait for a device and none could be measured: more of them would be guesses."""
    waiting = [attempt for attempt in attempts if not isinstance(attempt.verdict, Rejected)]
    if not waiting or any(attempt.speedup is not None for attempt in attempts):
        return None
    return Stop(reason="needs_device", message=f"{len(waiting)} of {len(attempts)} kernels wait for a device to run on")


class KernelAgent(Protocol):
    name: str

    def propose(self, task: KernelTask, attempts: tuple[Attempt, ...], budget: Budget) -> Proposals | Stop:
        """The next generation. Stateless: everything that the agent may know is in the arguments, so that a run
        can be killed and resumed between any two calls."""
        ...
