"""ExportedOp: a module of tensors as plain Python, by torch.export: what a task takes from the code that it replaces.

Served sites and problem files go the same way. The module runs here, its reference runs anywhere.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import nn
from torch.export import Dim, ExportedProgram
from torch.export.graph_signature import InputKind, OutputKind

from candidates.call_shapes import common_order
from candidates.error_bound import derive_error_bound
from candidates.inputs import Distribution, draw_input
from candidates.judge.admission import find_weaknesses
from candidates.record import Record
from candidates.reference import load_reference
from candidates.reference_source import CannotWrite, write_reference
from candidates.task import ElementType, ErrorBound, InputRole, InputSpec, KernelTask, TensorSpec, Workload
from traces.capture import observe_tensor
from traces.sites import ObservedTensor

EXPORT_SIZES = (3, 5, 11, 7, 13, 17, 19, 23)
"""Odd and different, so that export neither takes an axis for a constant nor two axes for one."""
_VERIFY_TOLERANCE = 1e-6
_BOUND_ELEMENTS = 1_500_000
"""The error bound is derived on workloads of at most this many elements, and on the smallest in any case."""
_BOUND_WORKLOADS = 3
_MOST_INDEX = 1 << 24
"""An input that may be as large selects nothing; it is a number."""


class Obstructed(Exception):
    """Why there can be no task; the message is what an Obstacle says."""


class ExportedOp(Record):
    reference: str
    inputs: tuple[InputSpec, ...]
    """Parameters first where the graph has them first, then the activations and states as given."""
    outputs: tuple[TensorSpec, ...]
    workloads: tuple[Workload, ...]
    """Those given, less the hidden ones that the module refuses."""


Served = Callable[..., Any]
"""What a reference is held against: takes all activations and states positionally, leaves in the states what they
become."""


def export_op(
    target: nn.Module,
    activations: Sequence[InputSpec],
    workloads: Sequence[Workload],
    *,
    served: Served | None = None,
    is_named: bool = False,
) -> ExportedOp:
    """`target` takes `activations`, states among them, positionally, holds the module with the parameters as its
    attribute `target`, and writes to states only.

    The reference is run beside `served` (None: `target` itself) at every workload. Where arguments are named, those
    that the graph does not use are no inputs. Raises Obstructed where export cannot follow, where the graph is no plain
    function of tensors, and where the two differ by more than 1e-6.
    """
    exported = _export(target, activations)
    inputs, names = _inputs_of(exported, target, activations, drops_unused=is_named)
    try:
        reference = write_reference(exported.graph, names)
    except CannotWrite as cannot:
        raise Obstructed(f"its graph is no plain function of tensors: {cannot}") from cannot
    outputs = _outputs_of(exported, activations)
    inputs = tuple(
        _with_range(spec, index, reference, inputs, target, workloads[0]) for index, spec in enumerate(inputs)
    )
    agreed, outputs = _verify(target, served or target, reference, activations, inputs, outputs, workloads)
    return ExportedOp(reference=reference, inputs=inputs, outputs=outputs, workloads=agreed)


def admit(task: KernelTask) -> KernelTask:
    """The task with its error bound. Raises Obstructed where its check would not tell right results from wrong ones."""
    task = task.model_copy(update={"error_bound": _bound(task)})
    if weaknesses := find_weaknesses(task):
        raise Obstructed(f"its check would be unsound: {weaknesses[0]}")
    return task


def identifier(name: str) -> str:
    """`name` as a tensor of a task may be called."""
    lowered = re.sub(r"\W", "_", name).lower()
    return lowered if re.match(r"[a-z_]", lowered) else f"_{lowered}"


def element_type(tensor: torch.Tensor) -> ElementType:
    name = str(tensor.dtype).removeprefix("torch.")
    if name not in set(ElementType):
        raise Obstructed(f"it works in {name}, which kernels here do not take")
    return ElementType(name)


def _export(target: nn.Module, activations: Sequence[InputSpec]) -> ExportedProgram:
    """The graph with every axis dynamic. Export raises many things for a module that it cannot follow."""
    axes = tuple(dict.fromkeys(dim for spec in activations for dim in spec.shape if isinstance(dim, str)))
    sizes = dict(zip(axes, EXPORT_SIZES, strict=False))
    if len(sizes) < len(axes):
        raise Obstructed(f"{len(axes)} of its dims vary, more than {len(EXPORT_SIZES)}")
    rng = np.random.default_rng(0)
    dense = [spec.model_copy(update={"allocated": None}) for spec in activations]
    arguments = tuple(draw_input(spec, sizes, Distribution.NORMAL, rng) for spec in dense)
    dynamic = tuple({i: Dim.AUTO for i, dim in enumerate(spec.shape) if isinstance(dim, str)} for spec in activations)
    try:
        with torch.no_grad():
            exported = torch.export.export(target, arguments, dynamic_shapes=(dynamic,), strict=False)
    except (RuntimeError, TypeError, ValueError, AttributeError, AssertionError) as error:
        raise Obstructed(f"torch.export cannot follow it: {_first_line(error)}") from error
    kinds = {spec.kind for spec in exported.graph_signature.output_specs}
    if kinds != {OutputKind.USER_OUTPUT}:
        raise Obstructed("it changes its inputs or buffers")
    return exported


def _inputs_of(
    exported: ExportedProgram, target: nn.Module, activations: Sequence[InputSpec], *, drops_unused: bool
) -> tuple[tuple[InputSpec, ...], dict[str, str]]:
    """The task's inputs, parameters first, and their names by placeholder of the graph."""
    tensors = _held_tensors(target)
    remaining = iter(activations)
    used = {node.name for node in exported.graph.nodes if node.op == "placeholder" and node.users}
    inputs: list[InputSpec] = []
    names: dict[str, str] = {}
    for spec in exported.graph_signature.input_specs:
        placeholder = spec.arg.name
        match spec.kind:
            case InputKind.USER_INPUT:
                activation = next(remaining)
                if drops_unused and placeholder not in used:
                    continue
                inputs.append(activation)
            case InputKind.PARAMETER | InputKind.BUFFER if placeholder in used:
                inputs.append(_parameter(str(spec.target), tensors[str(spec.target)]))
            case InputKind.PARAMETER | InputKind.BUFFER:
                continue
            case _:
                raise Obstructed(f"its graph holds {spec.target}, which is neither a parameter nor an argument")
        names[placeholder] = inputs[-1].name
    if len(set(names.values())) < len(names):
        raise Obstructed(f"two of its inputs would have one name: {list(names.values())}")
    return tuple(inputs), names


def _held_tensors(target: nn.Module) -> Mapping[str, torch.Tensor]:
    return {**dict(target.named_parameters()), **dict(target.named_buffers())}


def _parameter(path: str, tensor: torch.Tensor) -> InputSpec:
    attribute = path.removeprefix("target.")
    dim_order = common_order([(observe_tensor(attribute, tensor), 1.0)])
    if dim_order is None:
        raise Obstructed(f"its parameter {attribute} is not dense in memory: strides {tensor.stride()}")
    return InputSpec(
        name=identifier(attribute),
        element_type=element_type(tensor),
        shape=tuple(tensor.shape),
        dim_order=dim_order,
        role=InputRole.PARAMETER,
        attribute=attribute,
    )


def _outputs_of(exported: ExportedProgram, activations: Sequence[InputSpec]) -> tuple[TensorSpec, ...]:
    """Shapes in axes; the order in memory is filled in by `_verify`."""
    axis_of: dict[str, str] = {}
    placeholders = {node.name: node for node in exported.graph.nodes if node.op == "placeholder"}
    user_inputs = [s for s in exported.graph_signature.input_specs if s.kind is InputKind.USER_INPUT]
    for spec, activation in zip(user_inputs, activations, strict=True):
        for size, dim in zip(placeholders[spec.arg.name].meta["val"].shape, activation.shape, strict=True):
            if isinstance(dim, str) and isinstance(size, int):
                raise Obstructed(f"it works for {dim}={size} only")
            axis_of[str(size)] = str(dim)
    results: Any = exported.graph.output_node().args[0]
    outputs = []
    for index, result in enumerate(results):
        if not isinstance(result, torch.fx.Node) or not isinstance(result.meta["val"], torch.Tensor):
            raise Obstructed("it returns something that is no tensor")
        value = result.meta["val"]
        unknown = [str(size) for size in value.shape if not isinstance(size, int) and str(size) not in axis_of]
        if unknown:
            raise Obstructed(f"its output has the size {unknown[0]}, which is no axis of its inputs")
        outputs.append(
            TensorSpec(
                name="output" if len(results) == 1 else f"output{index}",
                element_type=element_type(value),
                shape=tuple(size if isinstance(size, int) else axis_of[str(size)] for size in value.shape),
                dim_order=tuple(range(value.dim())),
            )
        )
    return tuple(outputs)


def _with_range(
    spec: InputSpec,
    index: int,
    reference_source: str,
    inputs: Sequence[InputSpec],
    target: nn.Module,
    workload: Workload,
) -> InputSpec:
    """An integer input that selects among so many things takes every value that does: a kernel for the first two of
    them would be no kernel. What it selects among is found by asking for more."""
    if (
        spec.role is InputRole.PARAMETER
        or spec.element_type not in (ElementType.INT32, ElementType.INT64)
        or spec.below
    ):
        return spec
    reference = load_reference(reference_source)
    arguments = _arguments(inputs, target, workload, np.random.default_rng(0))

    def takes(value: int) -> bool:
        arguments[index].fill_(value)
        try:
            with torch.no_grad():
                reference(*arguments)
        except (RuntimeError, IndexError):
            return False
        return True

    if takes(_MOST_INDEX) or not takes(0):
        return spec
    taken, refused = 0, _MOST_INDEX
    while refused - taken > 1:
        middle = (taken + refused) // 2
        taken, refused = (middle, refused) if takes(middle) else (taken, middle)
    return spec.model_copy(update={"below": refused})


def _arguments(
    inputs: Sequence[InputSpec], target: nn.Module, workload: Workload, rng: np.random.Generator
) -> list[torch.Tensor]:
    held = _held_tensors(target)
    return [
        held[f"target.{spec.attribute}"]
        if spec.role is InputRole.PARAMETER
        else draw_input(spec, workload.axes, Distribution.NORMAL, rng)
        for spec in inputs
    ]


def _verify(
    target: nn.Module,
    served: Served,
    reference_source: str,
    activations: Sequence[InputSpec],
    inputs: tuple[InputSpec, ...],
    outputs: tuple[TensorSpec, ...],
    workloads: Sequence[Workload],
) -> tuple[tuple[Workload, ...], tuple[TensorSpec, ...]]:
    """The workloads at which reference and `served` agree, and the outputs with the order in memory that eager gives.

    A hidden workload that `served` itself refuses (a neighbour of a real shape) is left out.
    """
    reference = load_reference(reference_source)
    rng = np.random.default_rng(0)
    agreed: list[Workload] = []
    seen: list[list[tuple[ObservedTensor, float]]] = [[] for _ in outputs]
    for workload in workloads:
        arguments = _arguments(inputs, target, workload, rng)
        named = {spec.name: argument for spec, argument in zip(inputs, arguments, strict=True)}
        states = {spec.name: named[spec.name] for spec in inputs if spec.role is InputRole.STATE}
        given = {
            spec.name: named[spec.name]
            if spec.name in named
            else draw_input(spec, workload.axes, Distribution.NORMAL, rng)
            for spec in activations
        } | {name: state.clone() for name, state in states.items()}
        versions = {name: argument._version for name, argument in named.items() if name not in states}
        try:
            with torch.no_grad():
                expected, got = _tuple(served(*given.values())), _tuple(reference(*arguments))
        except (RuntimeError, IndexError) as error:
            if workload.is_hidden:
                continue
            raise Obstructed(f"it fails at {workload.name}: {error}") from error
        if versions != {name: named[name]._version for name in versions}:
            raise Obstructed("it changes its inputs or buffers")
        for spec, ours, theirs, of_output in zip(outputs, got, expected, seen, strict=True):
            if not agree(ours, theirs):
                raise Obstructed(f"its exported graph gives another {spec.name} at {workload.name}")
            of_output.append((observe_tensor(spec.name, theirs), workload.calls_per_hour))
        for name, state in states.items():
            if not agree(state, given[name]):
                raise Obstructed(f"its exported graph leaves another {name} at {workload.name}")
        agreed.append(workload)
    ordered = []
    for spec, of_output in zip(outputs, seen, strict=True):
        order = common_order(of_output)
        if order is None:
            raise Obstructed(f"its {spec.name} is not dense in memory")
        ordered.append(spec.model_copy(update={"dim_order": order}))
    return tuple(agreed), tuple(ordered)


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
        raise Obstructed(str(error)) from error
    finally:
        torch.set_num_threads(threads)


def agree(ours: torch.Tensor, theirs: torch.Tensor) -> bool:
    """Whether two computations of one function in the same type gave the same."""
    if ours.shape != theirs.shape or ours.dtype != theirs.dtype:
        return False
    return torch.allclose(ours, theirs, rtol=_VERIFY_TOLERANCE, atol=_VERIFY_TOLERANCE, equal_nan=True)


def _tuple(value: torch.Tensor | Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    return (value,) if isinstance(value, torch.Tensor) else tuple(value)


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)
