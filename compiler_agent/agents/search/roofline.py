"""most_speedup: what a schedule could reach at best, at the measured ceilings of its device."""

from candidates.device import DeviceCeilings
from candidates.floor import floor_us
from candidates.measurement import Measurement
from candidates.task import KernelTask

POSSIBLE_SHARE = 0.8
"""Ceilings are measured, and may have been measured low: nothing is ruled out for a smaller share of a floor."""


def most_speedup(task: KernelTask, parameter_bytes: int, ceilings: DeviceCeilings, met: Measurement) -> float:
    """Over the baselines that `met` has met, weighted by traffic, for a kernel that reads so many bytes of parameters
    in a call."""
    workloads = {workload.name: workload for workload in task.public_workloads}
    before_us = after_us = 0.0
    has_traffic = any(workload.calls_per_hour > 0 for workload in workloads.values())
    for each in met.workloads:
        workload = workloads[each.workload]
        calls = workload.calls_per_hour if has_traffic else 1.0
        least_us = POSSIBLE_SHARE * floor_us(task, workload, ceilings, parameter_bytes) + ceilings.dispatch_us
        before_us += calls * each.baselines_us[each.best_baseline]
        after_us += calls * least_us
    return before_us / after_us
