"""HotOp: an op site measured on the device, and what could be won there."""

from pydantic import Field

from candidates.record import Record
from candidates.task import SiteLevel


class HotWorkload(Record):
    shape: str
    """Workload name: `batch=1,tokens=8`."""
    dtype: str
    calls_per_hour: float = Field(ge=0)
    time_us: float = Field(gt=0)
    """Eager, one call."""
    floor_us: float = Field(ge=0)


class HotOp(Record):
    op: str
    site: str
    level: SiteLevel
    task_id: str | None
    """None: the site could not be extracted into a task; `obstacle` says why."""
    obstacle: str | None = None
    share_of_time: float = Field(ge=0)
    """Of the device time of the replayed traffic; sites of different levels overlap."""
    share_by_class: dict[str, float]
    time_us: float = Field(gt=0)
    """Traffic-weighted mean of one call now."""
    floor_us: float = Field(ge=0)
    recoverable_share: float = Field(ge=0)
    """share_of_time * (1 - floor / time): the most that a perfect kernel could give back."""
    workloads: tuple[HotWorkload, ...]


def rank_hot_ops(hot_ops: tuple[HotOp, ...]) -> tuple[HotOp, ...]:
    """Largest recoverable share first; ties by name, so that a ranking is reproducible."""
    return tuple(sorted(hot_ops, key=lambda hot_op: (-hot_op.recoverable_share, hot_op.op, hot_op.site)))
