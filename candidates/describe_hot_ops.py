"""Hot ops from what was captured, measured and extracted: shares of device time, floors, what could be won."""

import itertools
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from candidates.call_shapes import name_call_shapes
from candidates.extraction import Obstacle
from candidates.hot_ops import HotOp, HotWorkload, rank_hot_ops
from candidates.site_timing import SiteTimes, rate_of
from candidates.task import KernelTask, SiteLevel, Workload
from traces.sites import CapturedSite, SiteCall

_CALLS_SHOWN = 16


def describe_hot_ops(
    captured: Sequence[CapturedSite],
    times: SiteTimes,
    extracted: Mapping[str, KernelTask | Obstacle],
    floor_us: Callable[[KernelTask, Workload], float],
) -> tuple[HotOp, ...]:
    """Every op that the traffic calls, ranked; `extracted` by op. Without a task the floor is 0: nothing bounds it."""
    classes = sorted({name for rate in times.passes.values() for name in rate.per_hour_by_class})
    hot_ops = []
    for each in captured:
        if each.site.op in times.one_call and any(call.calls_per_hour for call in each.calls):
            hot_ops.append(_describe(each, times, extracted[each.site.op], floor_us, classes))
    return rank_hot_ops(tuple(hot_ops))


def coverage(hot_ops: Sequence[HotOp]) -> float:
    """Share of the device time in leaf sites, which do not overlap; the rest is what no site holds."""
    return sum(hot_op.share_of_time for hot_op in hot_ops if hot_op.level is SiteLevel.LEAF)


def unmatched_calls(captured: Sequence[CapturedSite], extracted: Mapping[str, KernelTask | Obstacle]) -> dict[str, int]:
    """Calls an hour at leaf sites that no task serves, by reason."""
    unmatched: dict[str, int] = {}
    for each in captured:
        result = extracted[each.site.op]
        if each.site.level != SiteLevel.LEAF:
            continue
        if isinstance(result, Obstacle):
            calls, reason = each.calls, f"{each.site.op}: {result.reason}"
        else:
            shapes = name_call_shapes(each.calls)
            calls = shapes.left_out if shapes else ()
            reason = f"{each.site.op}: other arguments or order in memory than the task's"
        count = round(sum(call.calls_per_hour for call in calls))
        if count:
            unmatched[reason] = count
    return unmatched


def rank_correlations(hot_ops: Sequence[HotOp]) -> dict[str, float]:
    """Spearman's rank correlation of the ops' shares between each two workload classes, by `class~class`."""
    classes = sorted({name for hot_op in hot_ops for name in hot_op.share_by_class})
    shares = {name: np.array([hot_op.share_by_class.get(name, 0.0) for hot_op in hot_ops]) for name in classes}
    return {f"{a}~{b}": spearman(shares[a], shares[b]) for a, b in itertools.combinations(classes, 2)}


def spearman(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> float:
    """Pearson correlation of the ranks, ties averaged; 0 where one side is all ties."""
    ranks_a, ranks_b = _ranks(a), _ranks(b)
    spread = float(ranks_a.std() * ranks_b.std())
    return float(((ranks_a - ranks_a.mean()) * (ranks_b - ranks_b.mean())).mean() / spread) if spread else 0.0


def _ranks(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    averaged: npt.NDArray[np.float64] = (last - (counts - 1) / 2.0)[inverse]
    return averaged


def _describe(
    each: CapturedSite,
    times: SiteTimes,
    extracted: KernelTask | Obstacle,
    floor_us: Callable[[KernelTask, Workload], float],
    classes: Sequence[str],
) -> HotOp:
    site = each.site
    calls_per_hour = sum(call.calls_per_hour for call in each.calls)
    spent_us = _spent_us(each, times, None)
    if isinstance(extracted, KernelTask):
        workloads = _task_workloads(each, times, extracted, floor_us)
    else:
        workloads = [_call_workload(site.op, call, times) for call in each.calls[:_CALLS_SHOWN] if call.calls_per_hour]
    now_us = sum(workload.calls_per_hour * workload.time_us for workload in workloads)
    least_us = sum(workload.calls_per_hour * min(workload.floor_us, workload.time_us) for workload in workloads)
    share = spent_us / times.total_us()
    return HotOp(
        op=site.op,
        site=site.pattern,
        level=SiteLevel(site.level),
        task_id=extracted.id if isinstance(extracted, KernelTask) else None,
        obstacle=extracted.reason if isinstance(extracted, Obstacle) else None,
        share_of_time=share,
        share_by_class={name: _spent_us(each, times, name) / times.total_us(name) for name in classes},
        time_us=spent_us / calls_per_hour,
        floor_us=least_us / now_us * spent_us / calls_per_hour,
        recoverable_share=share * (1.0 - least_us / now_us),
        workloads=tuple(workloads),
    )


def _spent_us(each: CapturedSite, times: SiteTimes, workload_class: str | None) -> float:
    """Device time of an hour of traffic at the site."""
    one_call = times.one_call[each.site.op]
    return sum(
        one_call.estimate_us(source) * rate_of(rate, workload_class)
        for call in each.calls
        for source, rate in call.sources.items()
    )


def _task_workloads(
    each: CapturedSite, times: SiteTimes, task: KernelTask, floor_us: Callable[[KernelTask, Workload], float]
) -> list[HotWorkload]:
    shapes = name_call_shapes(each.calls)
    assert shapes is not None, "a site with a task has named shapes"
    time_of = {tuple(sorted(s.axes.items())): times.call_us(each.site.op, s.call) for s in shapes.calls}
    return [
        HotWorkload(
            shape=workload.name,
            dtype=shapes.element_types[0],
            calls_per_hour=workload.calls_per_hour,
            time_us=time_of[tuple(sorted(workload.axes.items()))],
            floor_us=floor_us(task, workload),
        )
        for workload in task.public_workloads
    ]


def _call_workload(op: str, call: SiteCall, times: SiteTimes) -> HotWorkload:
    return HotWorkload(
        shape=",".join("x".join(str(size) for size in tensor.shape) for tensor in call.tensors),
        dtype=call.tensors[0].element_type,
        calls_per_hour=call.calls_per_hour,
        time_us=times.call_us(op, call),
        floor_us=0.0,
    )
