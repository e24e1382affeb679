"""CountedTraffic: what a live build's counters say of the shapes that serving asks its ops for.

`Installation.write_counters` of the runtime writes the document. It has counts and no span of time: they tell the
shares of an op's shapes, and the rate of its calls stays what the task has.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from candidates.serving_build.build import Build
from candidates.serving_build.build_files import task_of
from candidates.serving_build.builds import BuildStore
from candidates.serving_build.live import is_same_place
from candidates.task import KernelTask
from candidates.workloads import SeenWorkload, select_workloads

_PER_CALL = 1000.0
"""Elements whose work is about what a call costs by itself; only for choosing shapes that stand for others."""


class CountersUnreadable(Exception):
    """The file is not what a runtime writes, or its build is not here; the message says which."""


class _Kernel(BaseModel):
    model_config = ConfigDict(extra="ignore")

    shapes: dict[str, int] = Field(default_factory=dict)
    missed_shapes: dict[str, int] = Field(default_factory=dict)


class _Document(BaseModel):
    model_config = ConfigDict(extra="ignore")

    build_id: str
    kernels: dict[str, _Kernel]


class CountedTraffic:
    def __init__(self, build: Build, kernels: Mapping[str, Mapping[str, int]]) -> None:
        """`kernels`: calls by kernel id and shape (`batch=1,tokens=8`), served and missed."""
        self._places = [
            (task_of(build, entry), kernels[entry.id]) for entry in build.manifest.kernels if entry.id in kernels
        ]

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
    try:
        document = _Document.model_validate(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, ValidationError) as error:
        raise CountersUnreadable(f"{path} is no document of a build's counters: {error}") from error
    kernels = {
        kernel_id: {
            shape: counts.shapes.get(shape, 0) + counts.missed_shapes.get(shape, 0)
            for shape in counts.shapes | counts.missed_shapes
        }
        for kernel_id, counts in document.kernels.items()
    }
    return CountedTraffic(store.show(document.build_id), kernels)


def _axes(shape: str) -> dict[str, int]:
    """Of a name such as `batch=1,tokens=8`; empty for one that is none."""
    axes = {}
    for part in shape.split(","):
        axis, _, size = part.partition("=")
        if not size.isdecimal() or int(size) < 1:
            return {}
        axes[axis] = int(size)
    return axes
