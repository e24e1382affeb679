"""What a candidate's page says, made of its facts: no HTML, and no more of anything than a page has room for."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from candidates.candidate import Proposal
from candidates.ledger.candidate_facts import CandidateFacts, Trial
from candidates.measurement import Baseline, Measurement, Stage, WorkloadMeasurement
from candidates.task import KernelTask
from candidates.verdict import Accepted, EvidenceKind, NeedsDevice, Rejected, Verdict
from leaderboard.charts.frame import fit_to_page
from leaderboard.charts.interval_bars import IntervalBars, IntervalRow, draw_interval_bars

MOST_WORKLOADS = 16
_MOST_DRAWN = 8
"""Workloads in the picture; the rest are in the table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """A verdict, in words."""

    state: str
    """`passed`, `failed` or `waiting`."""
    short: str
    long: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Against:
    baseline: Baseline
    us: float
    speedup: float
    is_best: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadRow:
    measured: WorkloadMeasurement
    calls_per_hour: float | None
    """None: a workload that the task no longer counts."""
    against: tuple[Against | None, ...]
    """In the order of `Speed.baselines`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Speed:
    measurement: Measurement
    heaviest: WorkloadMeasurement | None
    baselines: tuple[Baseline, ...]
    rows: tuple[WorkloadRow, ...]
    chart: Markup
    pairs: int

    @property
    def left_out(self) -> int:
        return len(self.measurement.workloads) - len(self.rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class TrialRow:
    """One line of what runs and people found."""

    trial: Trial
    outcome: str
    by_stage: tuple[Measurement | None, ...]
    """Screen, race, confirmation."""


def say(verdict: Verdict) -> Said:
    match verdict:
        case Accepted(evidence=EvidenceKind.NATIVE):
            return Said(state="passed", short="right", long=f"on the task's device: {_checked(verdict)}")
        case Accepted():
            return Said(
                state="waiting", short="right where interpreted", long=f"not on the task's device: {_checked(verdict)}"
            )
        case Rejected():
            where = {None: "before any workload ran", "hidden": "on a hidden workload"}
            on = where.get(verdict.workload, f"on {verdict.workload}")
            return Said(state="failed", short=verdict.reason.value.replace("_", " "), long=on)
        case NeedsDevice():
            return Said(state="waiting", short="needs a device", long=f"only {verdict.target} can tell")


def _checked(verdict: Accepted) -> str:
    return f"{verdict.calls_checked:,} calls checked, worst error {verdict.worst_error_in_bounds:.0%} of its bound"


def describe_speed(task: KernelTask, measurement: Measurement) -> Speed:
    """Workloads with most traffic first."""
    calls = task.public_calls_per_hour
    by_weight = measurement.by_traffic(calls)
    used = {baseline for workload in by_weight for baseline in workload.baselines_us}
    baselines = tuple(baseline for baseline in Baseline if baseline in used)
    return Speed(
        measurement=measurement,
        heaviest=by_weight[0] if by_weight else None,
        baselines=baselines,
        rows=tuple(
            WorkloadRow(
                measured=workload,
                calls_per_hour=calls.get(workload.workload),
                against=tuple(_against(workload, baseline) for baseline in baselines),
            )
            for workload in by_weight[:MOST_WORKLOADS]
        ),
        chart=fit_to_page(
            draw_interval_bars,
            IntervalBars(
                title="Speedup over each baseline, by workload",
                rows=tuple(row for workload in by_weight[:_MOST_DRAWN] for row in _bars(workload)),
            ),
        ),
        pairs=sum(workload.pairs for workload in measurement.workloads),
    )


def _against(workload: WorkloadMeasurement, baseline: Baseline) -> Against | None:
    us = workload.baselines_us.get(baseline)
    if us is None:
        return None
    is_best = baseline is workload.best_baseline
    speedup = workload.speedup_over_best if is_best else us / workload.candidate_us
    return Against(baseline=baseline, us=us, speedup=speedup, is_best=is_best)


def _bars(workload: WorkloadMeasurement) -> Iterator[IntervalRow]:
    """The best baseline first: only to it are calls paired, so only there is an interval."""
    yield IntervalRow(
        label=workload.workload,
        baseline=workload.best_baseline.value,
        estimate=workload.speedup_over_best,
        low=workload.interval.low,
        high=workload.interval.high,
        count=workload.pairs,
    )
    for baseline, us in workload.baselines_us.items():
        if baseline is not workload.best_baseline:
            yield IntervalRow(label=workload.workload, baseline=baseline.value, estimate=us / workload.candidate_us)


def describe_trials(trials: Sequence[Trial]) -> tuple[TrialRow, ...]:
    rows = []
    for trial in trials:
        by_stage = {measurement.stage: measurement for measurement in trial.measurements}
        rows.append(
            TrialRow(
                trial=trial,
                outcome="measured" if trial.attempt is None else _outcome(trial.attempt.verdict),
                by_stage=tuple(by_stage.get(stage) for stage in Stage),
            )
        )
    return tuple(rows)


def _outcome(verdict: Verdict) -> str:
    return f"rejected: {verdict.reason.value}" if isinstance(verdict, Rejected) else verdict.outcome


def proposals_in(facts: CandidateFacts) -> tuple[Proposal, ...]:
    """Each way in which the candidate came to be proposed once, the newest first."""
    attempts = [trial.attempt for trial in facts.trials if trial.attempt is not None]
    found: list[Proposal] = [facts.word.attempt.proposal] if facts.word is not None else []
    for attempt in attempts:
        if attempt.proposal not in found:
            found.append(attempt.proposal)
    return tuple(found)
