"""Measurement: paired ratios of a candidate to its best baseline, per workload and weighted by traffic."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple

from pydantic import Field

from candidates.record import Record


class Baseline(StrEnum):
    EAGER = "eager"
    EAGER_OUT = "eager_out"
    """Eager with its memory reused between calls, so that page faults do not flatter the candidate."""
    FUSED = "fused"
    """The fused aten op, where one exists."""
    COMPILE = "compile"
    EAGER_GRAPH = "eager_graph"
    """On a GPU, as the next two: replayed from a CUDA graph."""
    FUSED_GRAPH = "fused_graph"
    COMPILE_GRAPH = "compile_graph"
    CURRENT = "current"
    """The kernel in the serving build that is live now."""


class Stage(StrEnum):
    SCREEN = "screen"
    RACE = "race"
    CONFIRM = "confirm"


class Decision(StrEnum):
    WIN = "win"
    LOSE = "lose"
    UNDECIDED = "undecided"


class Interval(NamedTuple):
    low: float
    high: float


class WorkloadMeasurement(Record):
    workload: str
    candidate_us: float = Field(gt=0)
    """Time as serving sees it: kernel plus the runtime's dispatch."""
    kernel_only_us: float = Field(gt=0)
    device_us: float | None = None
    """On a GPU: by its own clock, as the kernel's process tells it. Far less than `kernel_only_us`: the GPU waits."""
    is_graph: bool = False
    """Replayed from a CUDA graph, which was faster than launching."""
    baselines_us: dict[Baseline, float]
    best_baseline: Baseline
    speedup_over_best: float = Field(gt=0)
    """Median over pairs (race) or over fresh processes (confirm) of best baseline / candidate."""
    interval: Interval
    pairs: int = Field(ge=1)
    share_of_floor: float = Field(ge=0)
    """floor / kernel_only: 1.0 is the roofline of the cache level that holds the working set."""
    parameters_are_cold: bool
    decision: Decision
    flops: int | None = Field(ge=0, default=None)
    """Of one call of the reference, as `candidates.floor` counts them: matrix products and convolutions alone, two for
    a multiply-add. None: measured before they were recorded."""
    moved_bytes: int | None = Field(ge=0, default=None)
    """Of one call where each parameter, activation and state is read once and each output written once."""


class Measurement(Record):
    stage: Stage
    device_id: str
    threads: int = Field(ge=1)
    workloads: tuple[WorkloadMeasurement, ...]
    traffic_weighted_speedup: float = Field(gt=0)
    """sum(w * t_best) / sum(w * t_candidate) over public workloads, w = calls per hour."""
    interval: Interval
    decision: Decision
    prepare_us: float = Field(ge=0, default=0.0)
    prepared_bytes: int = Field(ge=0, default=0)
    wall_s: float = Field(ge=0)

    def heaviest(self, calls_per_hour: Mapping[str, float]) -> WorkloadMeasurement:
        """The workload in which traffic spends most time, with the candidate."""
        return self.by_traffic(calls_per_hour)[0]

    def by_traffic(self, calls_per_hour: Mapping[str, float]) -> tuple[WorkloadMeasurement, ...]:
        """Workloads, the heaviest first; those that are as heavy by their names, the last name first."""

        def weight(told: WorkloadMeasurement) -> tuple[float, str]:
            return calls_per_hour.get(told.workload, 0.0) * told.candidate_us, told.workload

        return tuple(sorted(self.workloads, key=weight, reverse=True))

    def share_of_floor(self, calls_per_hour: Mapping[str, float]) -> float:
        """Floor time over kernel time, both summed over `workloads` with their calls per hour."""
        kernel_us = floor_us = 0.0
        for workload in self.workloads:
            weighted_us = calls_per_hour.get(workload.workload, 0.0) * workload.kernel_only_us
            kernel_us += weighted_us
            floor_us += weighted_us * workload.share_of_floor
        return floor_us / kernel_us if kernel_us else 0.0
