"""Extraction: a captured op site becomes a KernelTask whose reference is the exported graph of the site itself."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from candidates.call_shapes import CallShapes, is_of_cache, name_call_shapes
from candidates.exported_op import Obstructed, admit, export_op
from candidates.site_call import call_at, describe_call, input_name
from candidates.site_callable import NamedCall
from candidates.task import ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel
from candidates.workloads import SeenWorkload, select_workloads
from traces.sites import CapturedSite, SiteCall


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a site, or a problem of a suite, has no task."""

    reason: str


def extract_task(
    model: nn.Module,
    captured: CapturedSite,
    *,
    time_us: Callable[[SiteCall], float],
    device_id: str,
    threads: int,
    keep: int = 16,
) -> KernelTask | Obstacle:
    """`model` is the served module with its real weights; `time_us` is what one call takes now, in microseconds.

    The reference is run beside the site itself at every workload; a difference beyond 1e-6 is an obstacle too.
    """
    try:
        return _extract(model, captured, time_us, device_id, threads, keep)
    except Obstructed as obstructed:
        return Obstacle(reason=str(obstructed))


def _extract(
    model: nn.Module,
    captured: CapturedSite,
    time_us: Callable[[SiteCall], float],
    device_id: str,
    threads: int,
    keep: int,
) -> KernelTask:
    site = captured.site
    shapes = name_call_shapes(captured.calls)
    if shapes is None:
        raise Obstructed(_why_no_call_is_plain(captured.calls))
    if not any(shaped.call.calls_per_hour for shaped in shapes.calls):
        raise Obstructed("no call of the traffic has the shapes of a kernel: " + _why_no_call_is_plain(captured.calls))
    target = call_at(model, site, shapes)
    selection = select_workloads(
        [
            SeenWorkload(
                axes=shaped.axes,
                calls_per_hour=shaped.call.calls_per_hour,
                calls_per_hour_by_class=shaped.call.calls_per_hour_by_class,
                time_us=time_us(shaped.call),
            )
            for shaped in shapes.calls
        ],
        keep,
    )
    left_out = sum(call.calls_per_hour * time_us(call) for call in shapes.left_out)
    kept = sum(shaped.call.calls_per_hour * time_us(shaped.call) for shaped in shapes.calls)
    exported = export_op(
        target,
        _activations(shapes),
        selection.workloads,
        served=target.as_served if isinstance(target, NamedCall) else None,
        is_named=isinstance(target, NamedCall),
    )
    task = KernelTask(
        op=site.op,
        site=site.pattern,
        level=SiteLevel(site.level),
        reference=exported.reference,
        inputs=exported.inputs,
        outputs=exported.outputs,
        axes=shapes.axes,
        workloads=exported.workloads,
        covered_share=round(selection.covered_share * kept / (kept + left_out), 4),
        error_bound=ErrorBound(scaled_error=0.0),
        instances=len(site.module_paths) if any(spec.role is InputRole.PARAMETER for spec in exported.inputs) else 1,
        device_id=device_id,
        threads=threads,
    )
    task = admit(task)
    describe_call(model, site, task, shapes)  # and holds every instance to the task
    return task


def _why_no_call_is_plain(calls: Sequence[SiteCall]) -> str:
    if any(call.cache is not None and call.cache.grows_by > 1 for call in calls if call.calls_per_hour):
        return "it adds several tokens at once to its cache; only a decode step, which adds one, becomes a task"
    settings = {f"{name}={value}": None for call in calls for name, value in call.settings}
    if settings:
        return f"it is called with {', '.join(settings)}, and a kernel takes tensors alone"
    return "its tensors are not dense in memory"


def _activations(shapes: CallShapes) -> list[InputSpec]:
    """And states: the keys and values of a cache."""
    return [
        InputSpec(
            name=input_name(shapes, argument),
            element_type=element_type,
            shape=shape,
            dim_order=dim_order,
            allocated=allocated,
            role=InputRole.STATE if is_of_cache(shapes.cache, argument) else InputRole.ACTIVATION,
        )
        for argument, element_type, shape, allocated, dim_order in zip(
            shapes.arguments,
            shapes.element_types,
            shapes.shapes,
            shapes.allocated,
            shapes.dim_orders,
            strict=True,
        )
    ]
