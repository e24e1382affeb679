"""The inner side of `sandboxed_export`: runs a problem's own Python and exports it. Meant for inside of a sandbox.

`problem.py`, the user's code, and `request.json` lie in the working folder; `answer.json` is left there.
"""

import importlib.util
import inspect
import sys
import traceback
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

import torch
from pydantic import TypeAdapter
from torch import nn

from candidates.call_shapes import common_order
from candidates.exported_op import ExportedOp, Obstructed, element_type, export_op, identifier
from candidates.problems.problem import DefinitionSource, FixedScalar, ModelSource, ProblemSource
from candidates.record import Record
from candidates.task import ElementType, InputRole, InputSpec, Workload
from traces.capture import observe_tensor

CODE, REQUEST, ANSWER = "problem.py", "request.json", "answer.json"

T = TypeVar("T")
Argument = InputSpec | FixedScalar


class Obstruction(Record):
    reason: str


Answer = ExportedOp | Obstruction


class BoundCall(nn.Module):
    """`target` as a module of tensors alone, with results in row-major order: the other arguments are fixed."""

    def __init__(self, target: Callable[..., Any], arguments: Sequence[Argument], outputs: Sequence[str] = ()) -> None:
        super().__init__()
        self.target = target
        self._arguments = tuple(arguments)
        self._outputs = tuple(outputs)

    def forward(self, *tensors: torch.Tensor) -> Any:
        given = iter(tensors)
        result = self.target(*(a.value if isinstance(a, FixedScalar) else next(given) for a in self._arguments))
        match result:
            case torch.Tensor():
                return _row_major(result)
            case dict():
                return tuple(_row_major(result[name]) for name in self._outputs)
            case list() | tuple():
                return tuple(map(_row_major, result))
        raise Obstructed(f"it returns a {type(result).__name__}, which is no tensor")


def _row_major(result: Any) -> Any:
    """A copy costs eager PyTorch something, so only where one is needed."""
    return result.contiguous() if isinstance(result, torch.Tensor) and not result.is_contiguous() else result


def main() -> None:
    source: ModelSource | DefinitionSource = TypeAdapter(ProblemSource).validate_json(Path(REQUEST).read_bytes())
    answer: Answer
    try:
        answer = _export(source)
    except Obstructed as obstructed:
        answer = Obstruction(reason=str(obstructed))
    Path(ANSWER).write_text(answer.model_dump_json())


def _export(source: ModelSource | DefinitionSource) -> ExportedOp:
    torch.manual_seed(0)
    with torch.no_grad():
        module = _run("the file", _load)
        match source:
            case ModelSource():
                target = _run("Model", lambda: _build_model(module))
                inputs = _run("get_inputs", module.get_inputs)
                arguments = _describe(inputs, _names(target.forward, len(inputs)))
                workloads: tuple[Workload, ...] = (Workload(axes={}, calls_per_hour=1.0),)
                call = BoundCall(target, arguments)
            case DefinitionSource():
                arguments, workloads = source.arguments, source.workloads
                call = BoundCall(module.run, arguments, [spec.name for spec in source.outputs])
        activations = [argument for argument in arguments if isinstance(argument, InputSpec)]
        if not activations:
            raise Obstructed("it takes no tensor")
        return _with_ranges(_run("it", lambda: export_op(call, activations, workloads)), call)


def _load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("problem", Path(CODE).absolute())
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["problem"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _build_model(module: ModuleType) -> nn.Module:
    """`get_init_inputs` gives the arguments as a list, as a dict by name, or as a list and a dict."""
    given = module.get_init_inputs() if hasattr(module, "get_init_inputs") else []
    match given:
        case dict():
            model = module.Model(**given)
        case [list() | tuple() as positional, dict() as named]:
            model = module.Model(*positional, **named)
        case _:
            model = module.Model(*given)
    if not isinstance(model, nn.Module):
        raise Obstructed(f"Model is a {type(model).__name__}, not a torch.nn.Module")
    return model.eval()


def _names(forward: Callable[..., Any], count: int) -> list[str]:
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [identifier(p.name) for p in inspect.signature(forward).parameters.values() if p.kind in positional]
    return [*names, *(f"input{index}" for index in range(len(names), count))][:count]


def _describe(inputs: Any, names: Sequence[str]) -> tuple[Argument, ...]:
    if not isinstance(inputs, list | tuple):
        raise Obstructed(f"get_inputs gives a {type(inputs).__name__}, not a list")
    return tuple(_describe_input(given, name) for given, name in zip(inputs, names, strict=True))


def _describe_input(given: Any, name: str) -> Argument:
    if isinstance(given, bool | int | float):
        return FixedScalar(value=given)
    if not isinstance(given, torch.Tensor):
        raise Obstructed(f"its input {name} is a {type(given).__name__}, neither a tensor nor a number")
    dim_order = common_order([(observe_tensor(name, given), 1.0)])
    if dim_order is None:
        raise Obstructed(f"its input {name} is not dense in memory: strides {given.stride()}")
    return InputSpec(
        name=name,
        element_type=element_type(given),
        shape=tuple(given.shape),
        dim_order=dim_order,
        role=InputRole.ACTIVATION,
        below=_range_of(name, given),
    )


def _range_of(name: str, given: torch.Tensor) -> int | None:
    if given.dtype not in (torch.int32, torch.int64) or not given.numel():
        return None
    if int(given.min()) < 0:
        raise Obstructed(f"its {name} holds negative integers, and integers are drawn from 0 on here")
    return int(given.max()) + 1


def _with_ranges(exported: ExportedOp, call: BoundCall) -> ExportedOp:
    """Integers that the module holds, such as positions, keep the range that they have there."""

    def ranged(spec: InputSpec) -> InputSpec:
        if spec.role is not InputRole.PARAMETER or spec.element_type not in (ElementType.INT32, ElementType.INT64):
            return spec
        held = dict(call.named_buffers()) | dict(call.named_parameters())
        return spec.model_copy(update={"below": _range_of(spec.name, held[f"target.{spec.attribute}"])})

    return exported.model_copy(update={"inputs": tuple(map(ranged, exported.inputs))})


def _run(what: str, action: Callable[[], T]) -> T:
    try:
        return action()
    except Obstructed:
        raise
    except Exception as error:  # the user's code raises what it likes, and so does export under it
        lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.endswith(CODE)]
        place = f" at line {lines[-1]}" if lines else ""
        message = next(iter(str(error).splitlines()), "")
        raise Obstructed(f"{what} fails{place}: {type(error).__name__}: {message}") from error
