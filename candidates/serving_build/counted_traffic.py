"""CountedTraffic: what a live build's counters say of the shapes that serving asks its ops for.

`Installation.write_counters` of the runtime writes the document. It has counts and no span of time: they tell the
shares of an op's shapes, and the rate of its calls stays what the task has.
"""

import math
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from candidates.phases import is_of_phase
from candidates.serving_build.build import Build
from candidates.serving_build.build_files import task_of
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.counters import KernelCalls, read_counters
from candidates.serving_build.live import is_same_place
from candidates.task import KernelTask
from candidates.workloads import SeenWorkload, select_workloads

_PER_CALL = 1000.0
"""Elements whose work is about what a call costs by itself; only for choosing shapes that stand for others."""


class CountedTraffic:
    def __init__(self, build: Build, kernels: Mapping[str, KernelCalls]) -> None:
        """`kernels` by id."""
        self._places: list[tuple[KernelTask, Mapping[str, int]]] = []
        for entry in build.manifest.kernels:
            counts = kernels.get(entry.id, KernelCalls())
            served_beside = Counter[str]()
            for other in build.manifest.kernels:
                if other.site == entry.site and other.id != entry.id:
                    served_beside.update(kernels.get(other.id, KernelCalls()).shapes)
            # What one kernel of a site misses another one may serve: that is the other's traffic.
            missed = Counter(counts.missed_shapes) - served_beside
            own = {shape: calls for shape, calls in missed.items() if is_of_phase(entry.op, _axes(shape))}
            self._places.append((task_of(build, entry), Counter(counts.shapes) + Counter(own)))

    def applied_to(self, task: KernelTask) -> KernelTask:
        """The task with the workloads that serving has, at the rate that it had; itself where nothing was counted."""
        counted: dict[str, int] = {}
        for place, shapes in self._places:
            if is_same_place(place, task):
                for shape, calls in shapes.items():
                    counted[shape] = counted.get(shape, 0) + calls
        seen = [(axes, calls) for shape, calls in counted.items() if (axes := _axes(shape)).keys() == set(task.axes)]
        total = sum(calls for _, calls in seen)
        per_hour = sum(task.public_calls_per_hour.values())
        if not total or not per_hour:
            return task
        selection = select_workloads(
            [
                SeenWorkload(
                    axes=axes,
                    calls_per_hour=per_hour * calls / total,
                    calls_per_hour_by_class={},
                    time_us=_PER_CALL + math.prod(axes.values()),
                )
                for axes, calls in seen
            ],
            len(task.public_workloads),
        )
        return task.model_copy(update={"workloads": selection.workloads, "covered_share": selection.covered_share})


def read_counted_traffic(path: Path, store: BuildStore) -> CountedTraffic:
    """Raises CountersUnreadable, and BuildNotFound and BuildRefused as BuildStore.show does."""
    counters = read_counters(path)
    return CountedTraffic(store.show(counters.build_id), counters.kernels)


def _axes(shape: str) -> dict[str, int]:
    """Of a name such as `batch=1,tokens=8`; empty for one that is none."""
    axes = {}
    for part in shape.split(","):
        axis, _, size = part.partition("=")
        if not size.isdecimal() or int(size) < 1:
            return {}
        axes[axis] = int(size)
    return axes
