"""compose_roofline: what an op reaches on a device, under the best rates that were measured there.

Ops that multiply matrices are drawn as flops over arithmetic intensity, others as bandwidth over the bytes of a call.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from candidates.device import DeviceCeilings
from candidates.measurement import Baseline, Measurement, WorkloadMeasurement
from candidates.task import KernelTask
from leaderboard.charts.roofline import MOST_ROOFS, Point, Roof, Roofline, Series
from leaderboard.charts.text import format_quantity
from leaderboard.wording import microseconds

_MOST_WORKLOADS = 8
"""Of each series, those that traffic spends most time in."""

_BASELINES = {
    Baseline.EAGER: Series.EAGER,
    Baseline.EAGER_GRAPH: Series.EAGER,
    Baseline.COMPILE: Series.COMPILE,
    Baseline.COMPILE_GRAPH: Series.COMPILE,
    Baseline.CURRENT: Series.CURRENT,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A kernel and the measurement that it is drawn by."""

    label: str
    href: str
    measurement: Measurement


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainedRoofline:
    roofline: Roofline | None
    """None: what a call computes and moves is not known."""
    sentence: str
    """What is drawn, and why that."""


class _Work(NamedTuple):
    """Of one call."""

    flops: int
    moved_bytes: int


class _Level(NamedTuple):
    name: str
    working_set_bytes: int
    bytes_per_s: float


def compose_roofline(
    task: KernelTask, ceilings: DeviceCeilings | None, best: Measured, others: Sequence[Measured]
) -> ExplainedRoofline:
    """`task` is that of `best`; `others` are kernels for the same op, drawn at their heaviest workload alone."""
    work = _work_of(task, [best, *others])
    if not work:
        return ExplainedRoofline(
            roofline=None,
            sentence="What a call computes and moves is not known of these workloads: "
            "there is only the share of the floor that each reaches, in the numbers above.",
        )
    is_arithmetic = any(each.flops for each in work.values())
    points = tuple(_points(task, work, best, others, is_arithmetic))
    places = [point.x for point in points if point.x]
    roofs: tuple[Roof, ...] = ()
    if ceilings is not None:
        roofs = tuple(_roofs(task, ceilings, places) if is_arithmetic else _steps(ceilings, places))
    return ExplainedRoofline(
        roofline=Roofline(title="Roofline: flops over arithmetic intensity", roofs=roofs, points=points)
        if is_arithmetic
        else Roofline(
            title="Bandwidth over the bytes of a call",
            x_name="bytes of a call",
            x_unit="B",
            y_name="bandwidth",
            y_unit="B/s",
            roofs=roofs,
            points=points,
        ),
        sentence=_explain(best.measurement, ceilings, is_arithmetic),
    )


def _explain(measured: Measurement, ceilings: DeviceCeilings | None, is_arithmetic: bool) -> str:
    if ceilings is None:
        roofs = "The device's own rates are not in the ledger, so there is no roof."
    else:
        threads = "one thread" if ceilings.threads == 1 else f"{ceilings.threads} threads"
        roofs = f"Roofs are the best rates that the device showed with {threads}."
        if any(told.parameters_are_cold for told in measured.workloads):
            roofs += " Parameters of all instances together outgrow the caches: they come from memory at every call."
    if is_arithmetic:
        return f"A point for each workload: flops of matrix products, bytes of every tensor once. {roofs}"
    is_untold = any(told.flops is None for told in measured.workloads)
    why = "The flops of a call were not recorded with this measurement" if is_untold else "The op has no matrix product"
    return f"{why}: points show bytes a second instead, each tensor counted once. {roofs}"


def _work_of(task: KernelTask, measured: Sequence[Measured]) -> dict[str, _Work]:
    """By workload. Flops that no measurement tells, as older ones do not, are taken for 0."""
    work = {workload.name: _Work(0, task.moved_bytes(workload)) for workload in task.public_workloads}
    for each in measured:
        for told in each.measurement.workloads:
            if told.moved_bytes is not None:
                work[told.workload] = _Work(told.flops or 0, told.moved_bytes)
    return {name: each for name, each in work.items() if each.moved_bytes > 0}


def _points(
    task: KernelTask, work: Mapping[str, _Work], best: Measured, others: Sequence[Measured], is_arithmetic: bool
) -> Iterator[Point]:
    calls = task.public_calls_per_hour

    def point(
        series: Series, name: str, told: WorkloadMeasurement, time_us: float, href: str | None
    ) -> Iterator[Point]:
        if (one := work.get(told.workload)) is not None:
            intensity, per_s = one.flops / one.moved_bytes, (one.flops if is_arithmetic else one.moved_bytes) / time_us
            yield Point(
                label=f"{told.workload}, {name}, {microseconds(time_us)}",
                series=series,
                x=intensity if is_arithmetic else one.moved_bytes,
                y=1e6 * per_s,
                href=href,
            )

    for told in best.measurement.by_traffic(calls)[:_MOST_WORKLOADS]:
        for baseline, series in _BASELINES.items():
            if (time_us := told.baselines_us.get(baseline, 0.0)) > 0:
                yield from point(series, baseline.value.replace("_", " "), told, time_us, None)
        yield from point(Series.BEST, best.label, told, told.kernel_only_us, best.href)
    for each in others:
        if each.measurement.workloads:
            told = each.measurement.heaviest(calls)
            yield from point(Series.CANDIDATE, each.label, told, told.kernel_only_us, each.href)


def _levels(ceilings: DeviceCeilings) -> list[_Level]:
    """Caches from the first on, then memory; of reading and copying the better rate."""
    pairs = list(zip(ceilings.read, ceilings.copy_bandwidth, strict=False))
    return [
        _Level(
            "memory" if number == len(pairs) else f"L{number}",
            read.working_set_bytes,
            max(read.bytes_per_s, copied.bytes_per_s),
        )
        for number, (read, copied) in enumerate(pairs, start=1)
    ][1 - MOST_ROOFS :]


def _roofs(task: KernelTask, ceilings: DeviceCeilings, intensities: Sequence[float]) -> Iterator[Roof]:
    """Of each level of memory up to the peak of arithmetic, and that peak."""
    peak = ceilings.peak_flops_per_s(spec.element_type for spec in task.inputs)
    levels = _levels(ceilings)
    ridges = [peak / level.bytes_per_s for level in levels]
    low, high = min([*intensities, *ridges]) / 2, max([*intensities, *ridges]) * 2
    # First, as the labels of later ones make way.
    yield Roof(label=_rate("multiply-adds", peak, "flop/s"), points=((min(ridges), peak), (high, peak)))
    for level, ridge in zip(levels, ridges, strict=True):
        yield Roof(
            label=_rate(level.name, level.bytes_per_s, "B/s"), points=((low, low * level.bytes_per_s), (ridge, peak))
        )


def _steps(ceilings: DeviceCeilings, sizes: Sequence[float]) -> Iterator[Roof]:
    """Each level from where the one before is full."""
    levels = _levels(ceilings)
    start = min([*sizes, levels[0].working_set_bytes / 8]) / 2
    for number, level in enumerate(levels, start=1):
        end = float(level.working_set_bytes)
        if number == len(levels):
            end = max([*sizes, end]) * 2
        yield Roof(
            label=_rate(level.name, level.bytes_per_s, "B/s"),
            points=((start, level.bytes_per_s), (end, level.bytes_per_s)),
        )
        start = end


def _rate(name: str, per_s: float, unit: str) -> str:
    return f"{name} {format_quantity(per_s)}{unit}"
