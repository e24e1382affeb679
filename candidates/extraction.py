"""Extraction: a captured op site becomes a KernelTask whose reference is the exported graph of the site itself."""

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from torch import nn

from candidates.call_shapes import CallShapes, is_of_cache, name_call_shapes
from candidates.exported_op import Obstructed, admit, export_op
from candidates.serving_build.runtime import can_be_kept
from candidates.site_call import call_at, describe_call, input_name
from candidates.site_callable import NamedCall
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, SiteLevel, has_blocks
from candidates.weight_formats import WeightFormat
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
    bfloat16_weights: bool = False,
) -> KernelTask | Obstacle:
    """`model` is the served module with its real weights; `time_us` is what one call takes now, in microseconds.

    The reference is run beside the site itself at every workload; a difference beyond 1e-6 is an obstacle too. A
    parameter whose values an exact weight format holds in every instance is marked with it; with `bfloat16_weights`
    kernels may round other matrices.
    """
    try:
        task = _extract(model, captured, time_us, device_id, threads, keep)
        return admit((bfloat16_weights and allow_bfloat16_weights(task)) or task)
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
        inputs=tuple(_with_format(spec, model, site.module_paths) for spec in exported.inputs),
        outputs=exported.outputs,
        axes=shapes.axes,
        workloads=exported.workloads,
        covered_share=round(selection.covered_share * kept / (kept + left_out), 4),
        error_bound=ErrorBound(scaled_error=0.0),
        instances=len(site.module_paths) if any(spec.role is InputRole.PARAMETER for spec in exported.inputs) else 1,
        device_id=device_id,
        threads=threads,
    )
    describe_call(model, site, task, shapes)  # and holds every instance to the task
    return task


def allow_bfloat16_weights(task: KernelTask) -> KernelTask | None:
    """The task with its float32 matrices stored as bfloat16 where no format is known, yet without the error bound that
    goes with it (see `admit`); None where there are none."""
    inputs = tuple(
        spec.model_copy(update={"stored_as": WeightFormat.BFLOAT16}) if _is_plain_matrix(spec) else spec
        for spec in task.inputs
    )
    return None if inputs == task.inputs else task.model_copy(update={"inputs": inputs})


def _with_format(spec: InputSpec, model: nn.Module, module_paths: Sequence[str]) -> InputSpec:
    if not _is_plain_matrix(spec) or not has_blocks(spec) or spec.attribute is None:
        return spec
    value_in = operator.attrgetter(spec.attribute)
    for stored_as in WeightFormat:
        if stored_as.is_exact and all(
            can_be_kept(value_in(model.get_submodule(path)), stored_as) for path in module_paths
        ):
            return spec.model_copy(update={"stored_as": stored_as})
    return spec


def _is_plain_matrix(spec: InputSpec) -> bool:
    return (
        spec.role is InputRole.PARAMETER
        and spec.element_type is ElementType.FLOAT32
        and len(spec.shape) > 1
        and spec.stored_as is None
    )


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
