"""savings_of: what a run's build would save at the traffic that the run replayed: a pure function of its report."""

from pydantic import Field

from candidates.measurement import Interval
from candidates.record import Record
from candidates.run import RunReport

HOURS_A_DAY = 24.0


class Savings(Record):
    """Hours of the device that the recorded traffic keeps busy, per day."""

    busy_hours: float = Field(ge=0)
    """Without the build."""
    saved_hours: float
    interval: Interval
    """From that of the end-to-end speedup."""

    def usd(self, usd_per_device_hour: float) -> float:
        """Per day."""
        return self.saved_hours * usd_per_device_hour


def savings_of(report: RunReport) -> Savings | None:
    """None: the run has no build that passed its gates.

    The share of time that the replay keeps the device busy, times what the served model's measured speedup leaves over:
    what the build does end to end, not the sum of what its kernels do alone.
    """
    figures = report.end_to_end
    if report.build is None or not report.build.passed or figures is None:
        return None
    busy_hours = HOURS_A_DAY * report.replay.utilisation

    def saved(speedup: float) -> float:
        return busy_hours * (1.0 - 1.0 / speedup)

    low, high = figures.speedup_interval
    return Savings(
        busy_hours=busy_hours, saved_hours=saved(figures.speedup), interval=Interval(saved(low), saved(high))
    )
