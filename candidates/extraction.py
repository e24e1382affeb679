"""Extraction: a captured op site becomes a KernelTask whose reference is the exported graph of the site itself."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from candidates.call_shapes import CallShapes, common_order, name_call_shapes
from candidates.error_bound import derive_error_bound
from candidates.inputs import Distribution, draw_input
from candidates.judge.admission import find_weaknesses
from candidates.reference import load_reference
from candidates.reference_source import CannotWrite, write_reference
from candidates.site_callable import SiteCallable
from candidates.task import (
    ElementType,
    ErrorBound,
    InputRole,
    InputSpec,
    KernelTask,
    SiteLevel,
    TensorSpec,
    Workload,
)
from candidates.workloads import SeenWorkload, select_workloads
from traces.capture import observe_tensor
from traces.sites import CapturedSite, ObservedTensor, SiteCall

_EXPORT_SIZES = (3, 5, 11, 7, 13, 17, 19, 23)
"""Odd and different, so that export neither takes an axis for a constant nor two axes for one."""
_VERIFY_TOLERANCE = 1e-6
_BOUND_ELEMENTS = 1_500_000
"""The error bound is derived on workloads of at most this many elements, and on the smallest in any case."""
_BOUND_WORKLOADS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Obstacle:
    """Why a site has no task."""

    reason: str


class _Obstructed(Exception):
    pass


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
    except _Obstructed as obstructed:
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
        raise _Obstructed(_why_no_call_is_plain(captured.calls))
    if not any(shaped.call.calls_per_hour for shaped in shapes.calls):
        raise _Obstructed("no call of the traffic has the shapes of a kernel: " + _why_no_call_is_plain(captured.calls))
    target = SiteCallable(model, site).eval()
    if not target.takes(shapes.arguments):
        raise _Obstructed(f"it takes its tensors as {', '.join(shapes.arguments)}, not as its leading arguments")

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
    exported = _export(target, shapes)
    inputs, names = _inputs_of(exported, target, shapes)
    try:
        reference = write_reference(exported.graph, names)
    except CannotWrite as cannot:
        raise _Obstructed(f"its graph is no plain function of tensors: {cannot}") from cannot
    workloads, outputs = _verify(target, reference, inputs, _outputs_of(exported, shapes), selection.workloads)
    task = KernelTask(
        op=site.op,
        site=site.pattern,
        level=SiteLevel(site.level),
        reference=reference,
        inputs=inputs,
        outputs=outputs,
        axes=shapes.axes,
        workloads=workloads,
        covered_share=round(selection.covered_share * kept / (kept + left_out), 4),
        error_bound=ErrorBound(scaled_error=0.0),
        instances=len(site.module_paths) if any(spec.role is InputRole.PARAMETER for spec in inputs) else 1,
        device_id=device_id,
        threads=threads,
    )
    task = task.model_copy(update={"error_bound": _bound(task)})
    if weaknesses := find_weaknesses(task):
        raise _Obstructed(f"its check would be unsound: {weaknesses[0]}")
    return task


def _why_no_call_is_plain(calls: Sequence[SiteCall]) -> str:
    settings = {f"{name}={value}": None for call in calls for name, value in call.settings}
    if settings:
        return f"it is called with {', '.join(settings)}, and a kernel takes tensors alone"
    return "its tensors are not dense in memory"


def _export(target: SiteCallable, shapes: CallShapes) -> ExportedProgram:
    """The site's graph with every axis dynamic. Export raises many things for a module that it cannot follow."""
    sizes = dict(zip(shapes.axes, _EXPORT_SIZES, strict=False))
    if len(sizes) < len(shapes.axes):
        raise _Obstructed(f"{len(shapes.axes)} of its dims vary, more than {len(_EXPORT_SIZES)}")
    specs = _activations(shapes)
    rng = np.random.default_rng(0)
    arguments = tuple(draw_input(spec, sizes, Distribution.NORMAL, rng) for spec in specs)
    dynamic = tuple({i: Dim.AUTO for i, dim in enumerate(spec.shape) if isinstance(dim, str)} for spec in specs)
    try:
        with torch.no_grad():
            exported = torch.export.export(target, arguments, dynamic_shapes=(dynamic,), strict=False)
    except (RuntimeError, TypeError, ValueError, NotImplementedError, AttributeError, AssertionError) as error:
        raise _Obstructed(f"torch.export cannot follow it: {str(error).splitlines()[0]}") from error
    kinds = {spec.kind for spec in exported.graph_signature.output_specs}
    if kinds != {OutputKind.USER_OUTPUT}:
        raise _Obstructed("it changes its inputs or buffers")
    return exported


def _activations(shapes: CallShapes) -> list[InputSpec]:
    return [
        InputSpec(
            name=_identifier(argument),
            element_type=element_type,
            shape=shape,
            dim_order=dim_order,
            role=InputRole.ACTIVATION,
        )
        for argument, element_type, shape, dim_order in zip(
            shapes.arguments, shapes.element_types, shapes.shapes, shapes.dim_orders, strict=True
        )
    ]


def _identifier(name: str) -> str:
    lowered = re.sub(r"\W", "_", name).lower()
    return lowered if re.match(r"[a-z_]", lowered) else f"_{lowered}"


def _inputs_of(
    exported: ExportedProgram, target: SiteCallable, shapes: CallShapes
) -> tuple[tuple[InputSpec, ...], dict[str, str]]:
    """The task's inputs, parameters first, and their names by placeholder of the graph."""
    tensors = {**dict(target.named_parameters()), **dict(target.named_buffers())}
    activations = iter(_activations(shapes))
    used = {node.name for node in exported.graph.nodes if node.op == "placeholder" and node.users}
    inputs: list[InputSpec] = []
    names: dict[str, str] = {}
    for spec in exported.graph_signature.input_specs:
        placeholder = spec.arg.name
        match spec.kind:
            case InputKind.USER_INPUT:
                inputs.append(next(activations))
            case InputKind.PARAMETER | InputKind.BUFFER if placeholder in used:
                inputs.append(_parameter(str(spec.target), tensors[str(spec.target)]))
            case InputKind.PARAMETER | InputKind.BUFFER:
                continue
            case _:
                raise _Obstructed(f"its graph holds {spec.target}, which is neither a parameter nor an argument")
        names[placeholder] = inputs[-1].name
    if len(set(names.values())) < len(names):
        raise _Obstructed(f"two of its inputs would have one name: {list(names.values())}")
    return tuple(inputs), names


def _parameter(path: str, tensor: torch.Tensor) -> InputSpec:
    attribute = path.removeprefix("target.")
    dim_order = common_order([(observe_tensor(attribute, tensor), 1.0)])
    if dim_order is None:
        raise _Obstructed(f"its parameter {attribute} is not dense in memory: strides {tensor.stride()}")
    return InputSpec(
        name=_identifier(attribute),
        element_type=_element_type(tensor),
        shape=tuple(tensor.shape),
        dim_order=dim_order,
        role=InputRole.PARAMETER,
        attribute=attribute,
    )


def _element_type(tensor: torch.Tensor) -> ElementType:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in set(ElementType):
        raise _Obstructed(f"it works in {name}, which kernels here do not take")
    return ElementType(name)


def _outputs_of(exported: ExportedProgram, shapes: CallShapes) -> tuple[TensorSpec, ...]:
    """Shapes in axes; the order in memory is filled in by `_verify`."""
    axis_of: dict[str, str] = {}
    placeholders = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    user_inputs = [s for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for spec, shape in zip(user_inputs, shapes.shapes, strict=True):
        for size, dim in zip(placeholders[spec.arg.name].meta["val"].shape, shape, strict=True):
            if isinstance(dim, str) and isinstance(size, int):
                raise _Obstructed(f"it works for {dim}={size} only")
            axis_of[str(size)] = str(dim)
    results: Any = exported.graph.output_node().args[0]
    outputs = []
    for index, result in enumerate(results):
        if not isinstance(result, torch.fx.Node) or not isinstance(result.meta["val"], torch.Tensor):
            raise _Obstructed("it returns something that is no tensor")
        value = result.meta["val"]
        unknown = [str(size) for size in value.shape if not isinstance(size, int) and str(size) not in axis_of]
        if unknown:
            raise _Obstructed(f"its output has the size {unknown[0]}, which is no axis of its inputs")
        outputs.append(
            TensorSpec(
                name="output" if len(results) == 1 else f"output{index}",
                element_type=_element_type(value),
                shape=tuple(size if isinstance(size, int) else axis_of[str(size)] for size in value.shape),
                dim_order=tuple(range(value.dim())),
            )
        )
    return tuple(outputs)


def _verify(
    target: SiteCallable,
    reference_source: str,
    inputs: tuple[InputSpec, ...],
    outputs: tuple[TensorSpec, ...],
    workloads: Sequence[Workload],
) -> tuple[tuple[Workload, ...], tuple[TensorSpec, ...]]:
    """The workloads at which reference and site agree, and the outputs with the order in memory that eager gives.

    A hidden workload that the site itself refuses (a neighbour of a real shape) is left out.
    """
    reference = load_reference(reference_source)
    tensors = {**dict(target.named_parameters()), **dict(target.named_buffers())}
    rng = np.random.default_rng(0)
    agreed: list[Workload] = []
    seen: list[list[tuple[ObservedTensor, float]]] = [[] for _ in outputs]
    for workload in workloads:
        arguments = [
            tensors[f"target.{spec.attribute}"]
            if spec.role is InputRole.PARAMETER
            else draw_input(spec, workload.axes, Distribution.NORMAL, rng)
            for spec in inputs
        ]
        activations = [a for a, spec in zip(arguments, inputs, strict=True) if spec.role is not InputRole.PARAMETER]
        versions = [argument._version for argument in arguments]
        try:
            with torch.no_grad():
                expected, got = _tuple(target(*activations)), _tuple(reference(*arguments))
        except (RuntimeError, IndexError) as error:
            if workload.is_hidden:
                continue
            raise _Obstructed(f"it fails at {workload.name}: {error}") from error
        if versions != [argument._version for argument in arguments]:
            raise _Obstructed("it changes its inputs or buffers")
        for spec, ours, theirs, of_output in zip(outputs, got, expected, seen, strict=True):
            if not torch.allclose(ours, theirs, rtol=_VERIFY_TOLERANCE, atol=_VERIFY_TOLERANCE, equal_nan=True):
                raise _Obstructed(f"its exported graph gives another {spec.name} at {workload.name}")
            of_output.append((observe_tensor(spec.name, theirs), workload.calls_per_hour))
        agreed.append(workload)
    ordered = []
    for spec, of_output in zip(outputs, seen, strict=True):
        order = common_order(of_output)
        if order is None:
            raise _Obstructed(f"its {spec.name} is not dense in memory")
        ordered.append(spec.model_copy(update={"dim_order": order}))
    return tuple(agreed), tuple(ordered)


def _tuple(value: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def _bound(task: KernelTask) -> ErrorBound:
    """On a few workloads of bounded size: the error of an op depends on its reduction length, hardly on its rows."""

    def elements(workload: Workload) -> int:
        return sum(spec.numel(workload.axes) for spec in (*task.inputs, *task.outputs))

    by_size = sorted(task.workloads, key=elements)
    small = [workload for workload in by_size if elements(workload) <= _BOUND_ELEMENTS] or by_size[:1]
    chosen = {id(w): w for w in (small[0], small[len(small) // 2], small[-1])[:_BOUND_WORKLOADS]}
    threads = torch.get_num_threads()
    torch.set_num_threads(task.threads)  # the order of a sum, and so its error, depends on the threads
    try:
        return derive_error_bound(task.model_copy(update={"workloads": tuple(chosen.values())}))
    except ValueError as error:
        raise _Obstructed(str(error)) from error
    finally:
        torch.set_num_threads(threads)
