"""Selection of a task's workloads: few representatives weighted by traffic, hidden ones from the rest."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from candidates.task import Workload

RADIUS = math.log(math.sqrt(2.0))
"""A representative stands for shapes whose every axis is within a factor √2 of its own."""
HIDDEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenWorkload:
    """A shape that traffic asked for, or a probe of the capture (rate 0)."""

    axes: Mapping[str, int]
    calls_per_hour: float
    calls_per_hour_by_class: Mapping[str, float]
    time_us: float
    """Measured or estimated, of one call now."""

    @property
    def weight(self) -> float:
        return self.calls_per_hour * self.time_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    workloads: tuple[Workload, ...]
    """Public ones, heaviest first, then hidden ones; no two have the same axes."""
    covered_share: float
    """Share of the time of all seen workloads that the public ones stand for."""


def select_workloads(seen: Sequence[SeenWorkload], keep: int, radius: float = RADIUS) -> Selection:
    """At most `keep` public workloads, each with the calls of all shapes that it stands for, and a few hidden ones.

    Greedy: the next representative is the shape that adds most uncovered time. With a `radius` of 0 every shape stands
    for itself alone. Raises ValueError when no workload has any traffic.
    """
    ordered = sorted(_merged(seen), key=lambda workload: (-workload.weight, sorted(workload.axes.items())))
    total = sum(workload.weight for workload in ordered)
    if total <= 0 or keep < 1:
        raise ValueError(f"none of {len(ordered)} workloads has traffic, or none may be kept ({keep})")
    uncovered = [workload for workload in ordered if workload.weight > 0]
    clusters: list[tuple[SeenWorkload, list[SeenWorkload]]] = []
    while uncovered and len(clusters) < keep:
        center = max(uncovered, key=lambda c: sum(w.weight for w in uncovered if distance(c.axes, w.axes) <= radius))
        members = [w for w in uncovered if distance(center.axes, w.axes) <= radius]
        clusters.append((center, members))
        uncovered = [w for w in uncovered if not any(w is member for member in members)]
    clusters.sort(key=lambda cluster: -sum(member.weight for member in cluster[1]))
    public = [_represent(center, members) for center, members in clusters]
    taken = {workload.name for workload in public}
    rest = [workload for workload in ordered if _hidden(workload).name not in taken]
    covered = total - sum(workload.weight for workload in uncovered)
    return Selection(
        workloads=(*public, *_choose_hidden(rest, public)),
        covered_share=round(min(1.0, covered / total), 4),
    )


def distance(a: Mapping[str, int], b: Mapping[str, int]) -> float:
    """The largest |log ratio| over the axes."""
    return max((abs(math.log(a[axis] / b[axis])) for axis in a), default=0.0)


def _merged(seen: Sequence[SeenWorkload]) -> list[SeenWorkload]:
    by_axes: dict[tuple[tuple[str, int], ...], list[SeenWorkload]] = {}
    for workload in seen:
        by_axes.setdefault(tuple(sorted(workload.axes.items())), []).append(workload)
    merged = []
    for alike in by_axes.values():
        calls, classes = _sum_rates(alike)
        weight = sum(workload.weight for workload in alike)
        time_us = weight / calls if calls else alike[0].time_us
        merged.append(
            SeenWorkload(axes=alike[0].axes, calls_per_hour=calls, calls_per_hour_by_class=classes, time_us=time_us)
        )
    return merged


def _sum_rates(workloads: Sequence[SeenWorkload]) -> tuple[float, dict[str, float]]:
    classes: dict[str, float] = {}
    for workload in workloads:
        for name, rate in workload.calls_per_hour_by_class.items():
            classes[name] = classes.get(name, 0.0) + rate
    return sum(workload.calls_per_hour for workload in workloads), classes


def _represent(center: SeenWorkload, members: Sequence[SeenWorkload]) -> Workload:
    calls, classes = _sum_rates(members)
    return Workload(axes=dict(center.axes), calls_per_hour=calls, calls_per_hour_by_class=classes)


def _hidden(workload: SeenWorkload) -> Workload:
    return Workload(
        axes=dict(workload.axes),
        calls_per_hour=workload.calls_per_hour,
        calls_per_hour_by_class=dict(workload.calls_per_hour_by_class),
        is_hidden=True,
    )


def _choose_hidden(rest: Sequence[SeenWorkload], public: Sequence[Workload]) -> list[Workload]:
    """Spread over the sizes of the rest; where the rest is too small, neighbours of public shapes."""
    by_size = sorted(rest, key=lambda workload: (math.prod(workload.axes.values()), sorted(workload.axes.items())))
    spread = {round(i * (len(by_size) - 1) / max(1, HIDDEN - 1)) for i in range(HIDDEN)} if by_size else set()
    hidden = [_hidden(by_size[i]) for i in sorted(spread)]
    names = {workload.name for workload in (*public, *hidden)}
    for workload in public:
        for axis in workload.axes:
            neighbour = Workload(
                axes={**workload.axes, axis: workload.axes[axis] + 1}, calls_per_hour=0.0, is_hidden=True
            )
            if len(hidden) < HIDDEN and neighbour.name not in names:
                hidden.append(neighbour)
                names.add(neighbour.name)
    return hidden
