"""What workflows and activities hand each other: ids and numbers, never content."""

from datetime import datetime

from pydantic import Field

from candidates.measurement import Stage as MeasurementStage
from candidates.nightly import NightlySchedule
from candidates.record import Record
from candidates.spending import ModelBudget


class RunInput(Record):
    run_id: str
    device_id: str


class SearchSoFar(Record):
    """What a search that goes on in a new history has done in those before."""

    tried: int = Field(ge=0, default=0)
    spent_s: float = Field(ge=0, default=0.0)
    stop_reasons: tuple[str, ...] = ()
    """Of the agents that have stopped."""
    round_number: int = Field(ge=0, default=0)
    """Of the agent whose turn it is."""


class SearchInput(Record):
    run_id: str
    device_id: str
    task_id: str
    op: str
    agents: tuple[str, ...] = Field(min_length=1)
    models: ModelBudget
    seconds: float = Field(ge=0)
    attempts: int = Field(ge=0)
    recalls_past: bool = True
    """False: agents are told nothing of earlier searches."""
    last_stage: MeasurementStage = MeasurementStage.CONFIRM
    """SCREEN: nothing is raced, and nothing wins."""
    so_far: SearchSoFar = SearchSoFar()


class ExamInput(Record):
    """One search after the other."""

    run_id: str
    searches: tuple[SearchInput, ...]


class SearchOutcome(Record):
    tried: int = Field(ge=0)


class SearchPlan(Record):
    """Hot ops in order, most to win first; searched until `limit` of them got at least one candidate."""

    searches: tuple[SearchInput, ...]
    limit: int = Field(ge=1)


class ProposeInput(Record):
    run_id: str
    task_id: str
    agent: str
    round_number: int = Field(ge=0)
    """Counts the calls of this agent's `propose` for this op, from 0."""
    models: ModelBudget
    seconds_left: float = Field(ge=0)
    attempts_left: int = Field(ge=0)
    recalls_past: bool = True
    pending: tuple[str, ...] = ()
    """Blobs of the proposals that are being judged meanwhile."""


class Generation(Record):
    """Proposals of one agent that wait to be judged. Empty with a `stop_reason`: the agent has no more."""

    run_id: str
    task_id: str
    proposals: tuple[str, ...]
    """Blobs, each one Proposal as JSON."""
    may_go_ahead: bool = False
    """Whether the next generation may be asked for while this one is judged."""
    stop_reason: str | None = None
    wall_s: float = Field(ge=0)


class GenerationOutcome(Record):
    tried: int
    """Attempts at this op so far."""
    wall_s: float = Field(ge=0)


class SettleInput(Record):
    run_id: str
    task_id: str
    stop_reason: str
    last_stage: MeasurementStage = MeasurementStage.CONFIRM


class ReportInput(Record):
    run_id: str
    task_id: str


class ShipInput(Record):
    run_id: str
    device_id: str


class ShippedBuild(Record):
    """None: no kernel won, so there is nothing to ship."""

    build_id: str | None


class NightInput(Record):
    night_id: str
    execution: str = ""
    """Of the workflow, by Temporal's id: two servers may give their nights one name."""
    began_at: datetime
    schedule: NightlySchedule


class OpenedNight(Record):
    run: RunInput | None
    """None: the night was skipped."""


class NightEnd(Record):
    night: NightInput
    failure: str | None
    """Why it did not come to its end."""
