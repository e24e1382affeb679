"""Records of nightly runs: what a schedule asks for, and what became of one of its nights."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import Field

from candidates.record import Record, digest_of
from candidates.run import NightlyRequest, RunRequest
from traces.sources.traffic import SeenTraffic

SCHEDULE_PREFIX = "nightly-"


class NightlySchedule(Record):
    """One for each model, trace source and device."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$", max_length=64)
    cron: str
    time_zone: str
    jitter_s: float = Field(ge=0, default=0.0)
    catch_up_s: float = Field(ge=10, default=3600.0)
    """A night that could not begin for so long is left out."""
    source: str
    """URL of the files that production writes."""
    device_id: str
    """The CPU that hot ops are found and measured on."""
    template: RunRequest
    """What every night asks for, without the traffic."""
    counters: str | None = None
    """The folder where processes that serve the live build leave what they counted."""
    look_back_days: float | None = Field(gt=0, default=None)
    """Files that were last written earlier are passed over; None: none is."""
    fewest_requests: int = Field(ge=1, default=100)
    """With fewer new ones a night is skipped, and they count with the next one's."""

    @property
    def device(self) -> str:
        """What kernels are measured on."""
        return self.template.gpu or self.device_id

    @property
    def id(self) -> str:
        """Equal for schedules of which there may be only one."""
        return SCHEDULE_PREFIX + digest_of([self.template.model, self.source, self.device])[:10]


class NightRan(Record):
    kind: Literal["ran"] = "ran"
    request: NightlyRequest


class NightSkipped(Record):
    """Not a failure: there was nothing to run on."""

    kind: Literal["skipped"] = "skipped"
    reason: str


class NightFailed(Record):
    """Before there was a run; its traffic is new to the next night."""

    kind: Literal["failed"] = "failed"
    reason: str


class Night(Record):
    id: str
    """Of its run too."""
    execution: str = ""
    """Of the workflow that recorded it; empty in old records."""
    schedule: NightlySchedule
    began_at: datetime
    traffic: SeenTraffic = SeenTraffic()
    outcome: Annotated[NightRan | NightSkipped | NightFailed, Field(discriminator="kind")]
