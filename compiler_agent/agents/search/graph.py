"""The graph of a task: its reference traced with symbolic axes and read into scalar expressions per output."""

from dataclasses import dataclass
from typing import Any

import sympy  # type: ignore[import-untyped]  # ships no types
import torch

from candidates.reference import load_reference
from candidates.task import ElementType, KernelTask, TensorSpec
from compiler_agent.agents.search.aten_pointwise import POINTWISE
from compiler_agent.agents.search.aten_reductions import REDUCTIONS
from compiler_agent.agents.search.aten_views import VIEWS
from compiler_agent.agents.search.expressions import Apply, Index, Load, Size
from compiler_agent.agents.search.index_maps import Ranges, Unsupported, axis_symbol
from compiler_agent.agents.search.tensors import Tensor, memoised

_HANDLERS = POINTWISE | VIEWS | REDUCTIONS
_CHECKS = {torch.ops.aten._assert_tensor_metadata.default, torch.ops.aten._assert_scalar.default}
_FIRST_AXIS_SIZE = 5  # any size >= 2 serves: export gives every axis a symbol of its own


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedGraph:
    task: KernelTask
    outputs: tuple[Tensor, ...]


class _ReferenceModule(torch.nn.Module):
    def __init__(self, source: str) -> None:
        super().__init__()
        self._reference = load_reference(source)

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self._reference(*tensors)


def symbolic_shape(spec: TensorSpec) -> tuple[Size, ...]:
    return tuple(axis_symbol(dim) if isinstance(dim, str) else sympy.Integer(dim) for dim in spec.shape)


def trace_task(task: KernelTask) -> TracedGraph:
    """Raises Unsupported, naming the op, for a graph that this agent writes no program for."""
    exported = _export(task)
    if exported.graph_signature.inputs_to_parameters or exported.graph_signature.buffers_to_mutate:
        raise Unsupported("the reference holds module parameters or buffers")
    if exported.graph_signature.user_inputs_to_mutate:
        raise Unsupported(f"in-place write to {sorted(exported.graph_signature.user_inputs_to_mutate.values())}")
    placeholders = [node for node in exported.graph.nodes if node.op == "placeholder"]
    if len(placeholders) != len(task.inputs):
        raise Unsupported("tensors created inside the reference")
    axes = _axis_of_symbol(task, placeholders)
    environment: dict[torch.fx.Node, Any] = {}
    environment.update({node: _input_tensor(spec) for node, spec in zip(placeholders, task.inputs, strict=True)})
    for node in exported.graph.nodes:
        if node.op == "call_function":
            environment[node] = _read_call(node, environment, axes)
    (returned,) = next(node for node in exported.graph.nodes if node.op == "output").args
    outputs = tuple(environment[node] for node in returned)
    for spec, output in zip(task.outputs, outputs, strict=True):
        if tuple(sympy.expand(size) for size in output.shape) != symbolic_shape(spec):
            raise Unsupported(f"output {spec.name} has shape {output.shape}, the task says {spec.shape}")
        if spec.element_type in (ElementType.INT32, ElementType.INT64, ElementType.FLOAT16):
            raise Unsupported(f"output {spec.name} of type {spec.element_type}")
    return TracedGraph(task=task, outputs=outputs)


def _export(task: KernelTask) -> torch.export.ExportedProgram:
    sizes = {axis: _FIRST_AXIS_SIZE + 2 * place for place, axis in enumerate(task.axes)}
    dims = {axis: torch.export.Dim(axis, min=2) for axis in task.axes}
    samples, dynamic_shapes = [], []
    for spec in task.inputs:
        element_type = getattr(torch, spec.element_type.value)
        sample = torch.empty_strided(spec.sizes(sizes), spec.strides(sizes), dtype=element_type)
        samples.append(sample.zero_())
        dynamic_shapes.append({place: dims[dim] for place, dim in enumerate(spec.shape) if isinstance(dim, str)})
    decompositions: dict[Any, Any] = dict(torch.export.default_decompositions())
    # Linear layers stay whole: their decomposition merges dims only to split them again.
    decompositions.pop(torch.ops.aten.linear.default, None)
    aten = torch.ops.aten
    decompositions.update(torch._decomp.get_decompositions([aten.native_layer_norm, aten._softmax, aten._log_softmax]))
    try:
        module = _ReferenceModule(task.reference)
        exported = torch.export.export(module, tuple(samples), dynamic_shapes=(tuple(dynamic_shapes),), strict=False)
        decomposed: torch.export.ExportedProgram = exported.run_decompositions(decompositions)
        return decomposed
    except (RuntimeError, ValueError, TypeError) as error:
        message = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise Unsupported(f"torch.export of the reference with free axes {task.axes}: {message}") from error


def _axis_of_symbol(task: KernelTask, placeholders: list[torch.fx.Node]) -> dict[sympy.Symbol, sympy.Symbol]:
    axes: dict[sympy.Symbol, sympy.Symbol] = {}
    for node, spec in zip(placeholders, task.inputs, strict=True):
        for size, dim in zip(node.meta["val"].shape, spec.shape, strict=True):
            if isinstance(dim, str) and isinstance(size, torch.SymInt):
                axes[size.node.expr] = axis_symbol(dim)
            elif isinstance(dim, str):
                raise Unsupported(f"the reference fixes axis {dim} to {size}")
    return axes


def _input_tensor(spec: TensorSpec) -> Tensor:
    if spec.element_type is ElementType.FLOAT16:
        raise Unsupported(f"input {spec.name} of type float16")

    def at(index: Index, ranges: Ranges) -> Load | Apply:
        load = Load(spec.name, spec.element_type, index)
        return Apply("nonzero", (load,)) if spec.element_type is ElementType.BOOL else load

    return Tensor(shape=symbolic_shape(spec), element_type=spec.element_type, at=at)


def _read_call(node: torch.fx.Node, environment: dict[torch.fx.Node, Any], axes: dict[sympy.Symbol, Any]) -> Any:
    def size_of(size: int | torch.SymInt) -> Size:
        return sympy.sympify(size.node.expr).xreplace(axes) if isinstance(size, torch.SymInt) else sympy.Integer(size)

    if node.target in _CHECKS:
        return None
    value = node.meta.get("val")
    if isinstance(value, int | float | torch.SymInt):
        return size_of(value) if isinstance(value, int | torch.SymInt) else value
    if node.target is not None and getattr(node.target, "__name__", "") == "getitem":
        source, place = node.args
        assert isinstance(source, torch.fx.Node)
        return environment[source][place]
    handler = _HANDLERS.get(node.target)
    if handler is None:
        raise Unsupported(f"op {node.target}")
    arguments = torch.fx.map_arg(node.args, lambda argument: environment[argument])
    keywords = torch.fx.map_arg(node.kwargs, lambda argument: environment[argument])
    if isinstance(value, tuple | list):
        shapes = tuple(tuple(size_of(size) for size in part.shape) for part in value)
        parts = handler(node.name, shapes, *arguments, **keywords)
        return tuple(memoised(part) for part in parts)
    assert isinstance(value, torch.Tensor)
    shape = tuple(size_of(size) for size in value.shape)
    try:
        result = handler(node.name, shape, *arguments, **keywords)
    except TypeError as error:
        raise Unsupported(f"op {node.target} with arguments {node.args[1:]} {node.kwargs}: {error}") from error
    return memoised(result)
