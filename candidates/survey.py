"""survey_hot_ops: from replayed steps to ranked hot ops with tasks, on the real model and this device."""

from collections.abc import Callable, Sequence

from torch import nn

from candidates.benchmark.exclusive import exclusive_slot
from candidates.call_shapes import name_call_shapes
from candidates.describe_hot_ops import coverage, describe_hot_ops, rank_correlations, unmatched_calls
from candidates.device import DeviceCeilings
from candidates.extraction import Obstacle, extract_task
from candidates.floor import floor_us
from candidates.phases import split_phases
from candidates.run import Ranking, ReplayRecord
from candidates.serving_build.manifest import CallArguments, site_of
from candidates.site_call import describe_call
from candidates.site_timing import SiteTimes, choose_threads, measure_sites
from candidates.task import Architecture, KernelTask
from traces.capture import capture_calls, find_model_sites
from traces.model_calls import CallRate, ModelCall, model_calls
from traces.served_model import ServedModel
from traces.sites import CapturedSite


def survey_hot_ops(
    served: ServedModel,
    replay: ReplayRecord,
    *,
    device_id: str,
    architectures: tuple[Architecture, ...],
    gpu: str | None,
    keep: int,
    bfloat16_weights: bool = False,
    ceilings_of: Callable[[int], DeviceCeilings],
    put_task: Callable[[KernelTask], None],
    recount: Callable[[KernelTask], KernelTask] = lambda task: task,
    tell: Callable[[str], None],
) -> Ranking:
    """`keep` public workloads a task; `ceilings_of` by number of threads; every task goes to `put_task`, with the
    workloads that `recount` gives it.

    With `architectures` tasks are for those GPUs, measured on `gpu`, and ranked all the same by what this device takes.
    """
    fake = served.fake_module()
    sites = find_model_sites(fake)
    captured = capture_calls(fake, sites, replay.steps, replay.span_s)
    passes = model_calls(replay.steps, replay.span_s)
    module = served.load()
    with exclusive_slot():
        threads = choose_threads(module, _heaviest_decode(passes))
    ceilings = ceilings_of(threads.threads)
    tell(f"timing {len(sites)} sites with {threads.threads} threads")
    with exclusive_slot():
        measured = measure_sites(module, captured, passes, threads=threads.threads)
    parts, times = split_phases(captured, measured)
    tell(f"extracting tasks from {len(parts)} sites")

    def aimed(task: KernelTask) -> KernelTask:
        counted = recount(task)
        return counted.aimed_at(architectures, gpu) if architectures else counted

    seen = _extract(module, parts, times, device_id, threads.threads, keep, bfloat16_weights)
    extracted = {op: aimed(found) if isinstance(found, KernelTask) else found for op, found in seen.items()}
    for task in extracted.values():
        if isinstance(task, KernelTask):
            put_task(task)
    # Times are known of the shapes that the replay saw.
    described = describe_hot_ops(parts, times, seen, lambda task, workload: floor_us(task, workload, ceilings))
    ids = {op: task.id for op, task in extracted.items() if isinstance(task, KernelTask)}
    hot_ops = tuple(hot_op.model_copy(update={"task_id": ids.get(hot_op.op)}) for hot_op in described)
    covered = coverage(hot_ops)
    tell(f"hot ops cover {covered:.1%} of device time; hottest {', '.join(op.op for op in hot_ops[:3])}")
    return Ranking(
        coverage=covered,
        threads=threads.threads,
        eager_decode_us_by_threads=dict(threads.decode_us_by_threads),
        hot_ops=hot_ops,
        sites={
            task.id: site_of(part.site, sites, _call_of(module, part, task))
            for part in parts
            if isinstance(task := extracted[part.site.op], KernelTask)
        },
        rank_correlation=rank_correlations(hot_ops),
        unmatched=unmatched_calls(parts, extracted),
    )


def _call_of(module: nn.Module, part: CapturedSite, task: KernelTask) -> CallArguments | None:
    shapes = name_call_shapes(part.calls)
    assert shapes is not None, "a site with a task has named shapes"
    return describe_call(module, part.site, task, shapes)


def _heaviest_decode(passes: dict[ModelCall, CallRate]) -> ModelCall:
    """The decode pass that traffic makes most; a prefill-only traffic is served as if it decoded one token."""
    decodes = [call for call in passes if call.is_decode]
    return max(decodes, key=lambda call: passes[call].per_hour, default=ModelCall(batch=1, tokens=1, context=0))


def _extract(
    module: nn.Module,
    parts: Sequence[CapturedSite],
    times: SiteTimes,
    device_id: str,
    threads: int,
    keep: int,
    bfloat16_weights: bool,
) -> dict[str, KernelTask | Obstacle]:
    return {
        part.site.op: extract_task(
            module,
            part,
            time_us=lambda call, op=part.site.op: times.call_us(op, call),  # type: ignore[misc]
            device_id=device_id,
            threads=threads,
            keep=keep,
            bfloat16_weights=bfloat16_weights,
        )
        for part in parts
    }
