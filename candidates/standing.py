"""Standing: what is last known of a candidate for a task, on one line; and how standings are asked for.

A pure function of facts decides it; the ledger keeps the lines and ranks them.
"""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum

from pydantic import Field

from candidates.candidate import LanguageName
from candidates.measurement import Interval
from candidates.measurement import Stage as MeasurementStage
from candidates.promotion import PromotionDecision
from candidates.record import Record
from candidates.run import SearchEnd
from candidates.task import SiteLevel
from candidates.verdict import Rejected, Verdict, waits_for_device


class State(StrEnum):
    LIVE = "live"
    """In the build that serves now."""
    SHADOW = "shadow"
    """In that build, and compared with the original one call in so many."""
    SHIPPED = "shipped"
    """In a build that passed its gates."""
    WON = "won"
    """Passed its own gates; no build with it has passed."""
    RETRACTED = "retracted"
    """Found wrong after it had won."""
    LOST = "lost"
    UNDECIDED = "undecided"
    REJECTED = "rejected"
    SCREENED = "screened"
    """Judged correct; others of its search were faster."""
    WAITING = "waiting"
    """For a device of its task's kind."""


WINS = (State.LIVE, State.SHADOW, State.SHIPPED, State.WON, State.RETRACTED)
"""States of kernels that passed their gates once."""


class Standing(Record):
    task_id: str
    candidate_id: str
    op: str
    site: str
    level: SiteLevel
    device_id: str
    served_model: str | None
    """The model that the op was found in; None: the task came from elsewhere."""
    language: LanguageName
    agent: str
    endpoint: str | None
    """The language model that wrote the kernel; None for an agent that asks none."""
    parents: tuple[str, ...]
    run_id: str | None
    """The latest that tried, promoted or shipped it; None: only people did."""
    state: State
    reason: str
    """Why it is not live, or what was found since of one that is, in words; empty where there is nothing to say."""
    speedup: float | None
    """Over the best baseline, weighted by traffic."""
    interval: Interval | None
    pairs: int
    """How many pairs of timings stand behind it."""
    stage: MeasurementStage | None
    share_of_floor: float | None
    share_of_time: float | None
    """Of the device time of the run's traffic."""
    end_to_end: float | None
    """Speedup of the served model with the build that holds the kernel."""
    proposed_at: datetime
    updated_at: datetime
    """When it was last judged, measured or found wrong."""


class Sort(StrEnum):
    """Largest first."""

    AGE = "age"
    """By `updated_at`: the newest first."""
    SPEEDUP = "speedup"
    FLOOR = "floor"
    SHARE = "share"
    END_TO_END = "end_to_end"


class Filters(Record):
    """Which standings are asked for; what is None filters nothing."""

    states: tuple[State, ...] = Field(default=WINS, min_length=1)
    op: str | None = None
    site: str | None = None
    device_id: str | None = None
    served_model: str | None = None
    language: LanguageName | None = None
    agent: str | None = None
    endpoint: str | None = None
    workload_class: str | None = None
    """Ops that take any time in this class of traffic; the share of time is then that of the class."""
    run_id: str | None = None
    task_id: str | None = None


class Cursor(Record):
    """After which line the next page begins."""

    value: float
    number: int = Field(ge=0, lt=1 << 63)


class Page(Record):
    standings: tuple[Standing, ...]
    next: Cursor | None


class Facets(Record):
    """What there is to filter by; sorted."""

    ops: tuple[str, ...]
    device_ids: tuple[str, ...]
    served_models: tuple[str, ...]
    languages: tuple[str, ...]
    agents: tuple[str, ...]
    endpoints: tuple[str, ...]
    workload_classes: tuple[str, ...]


class KernelPlace(Record):
    """A kernel of a build: one candidate may serve several tasks."""

    task_id: str
    candidate_id: str


class InService(Record):
    """Kernels of the build that is live, and those of them that are being compared."""

    live: frozenset[KernelPlace] = Field(default_factory=frozenset)
    shadow: frozenset[KernelPlace] = Field(default_factory=frozenset)


class Outcome(Record):
    state: State
    reason: str


def decide_state(
    verdict: Verdict,
    promotion: PromotionDecision | None,
    end: SearchEnd | None,
    *,
    is_shipped: bool,
    why_not_shipped: str,
    flaw: str | None,
) -> Outcome:
    """From the latest facts about a candidate for a task.

    `promotion` None: none is newer than `end`, the latest search that named the candidate its best.
    """
    if flaw is not None:
        return Outcome(state=State.RETRACTED, reason=flaw)
    if isinstance(verdict, Rejected):
        return Outcome(state=State.REJECTED, reason=f"{verdict.reason.value}: {verdict.evidence.message}")
    if waits_for_device(verdict):
        return Outcome(state=State.WAITING, reason="no device of its task's kind has run it")
    if promotion is not None:
        if not promotion.is_promoted:
            failed = ", ".join(gate.name for gate in promotion.gates if not gate.passed)
            return Outcome(state=State.UNDECIDED, reason=f"not passed: {failed}")
        if is_shipped:
            return Outcome(state=State.SHIPPED, reason="")
        return Outcome(state=State.WON, reason=why_not_shipped)
    if end is None:
        return Outcome(state=State.SCREENED, reason="others of its search were faster")
    states = {"lost": State.LOST, "rejected": State.REJECTED, "undecided": State.UNDECIDED, "no_program": State.LOST}
    return Outcome(state=states.get(end.decision, State.UNDECIDED), reason=end.reason)


def in_service(standing: Standing, serving: InService) -> Standing:
    """With the state that it has in the build that is live; a kernel found wrong is retracted though it serves."""
    place = KernelPlace(task_id=standing.task_id, candidate_id=standing.candidate_id)
    if place not in serving.live or standing.state is State.RETRACTED:
        return standing
    state = State.SHADOW if place in serving.shadow else State.LIVE
    is_doubted = standing.state in (State.REJECTED, State.LOST, State.UNDECIDED)
    reason = f"{standing.state} since it won: {standing.reason}".removesuffix(": ") if is_doubted else ""
    return standing.model_copy(update={"state": state, "reason": reason})


def stored_states(states: Sequence[State]) -> tuple[State, ...]:
    """Those of `states` that facts alone decide; which kernels are live is the builds' to say."""
    return tuple(state for state in State if state in states and state not in (State.LIVE, State.SHADOW))
