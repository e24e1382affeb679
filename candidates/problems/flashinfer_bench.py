"""FlashInfer-Bench datasets: definitions with their workloads, as problems. Nothing of a reference runs here.

A dataset is a folder with `definitions/<op type>/<name>.json` and `workloads/<op type>/<name>.jsonl`; recorded inputs
lie in safetensors files below it.
"""

import json
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TypeVar

import torch
from pydantic import ValidationError
from safetensors import SafetensorError, safe_open

from candidates.exported_op import Obstructed, identifier
from candidates.extraction import Obstacle
from candidates.problems.documents import Definition, Document, Tensor, Trace, WorkloadInput
from candidates.problems.problem import (
    DefinitionDocuments,
    DefinitionSource,
    FixedScalar,
    Problem,
    ProblemError,
    defined_names,
    read_text,
)
from candidates.task import ElementType, InputRole, InputSpec, TensorSpec
from candidates.workloads import RADIUS, SeenWorkload, Selection, select_workloads

KEEP = 16
_RANDOM_BELOW = 1024
"""FlashInfer-Bench draws random integers from -1024 to 1023 (`bench/utils.py`); ours are not negative."""
_INTEGERS = (ElementType.INT32, ElementType.INT64)

D = TypeVar("D", bound=Document)


def read_dataset(root: Path) -> list[Problem]:
    """Every definition below `root`, in the order of their paths. Raises ProblemError for a file that is none."""
    return [read_definition(path, root) for path in sorted((root / "definitions").rglob("*.json"))]


def dataset_of(definition: Path) -> Path:
    """The root of the dataset that a definition's file lies in."""
    for folder in definition.absolute().parents:
        if folder.name == "definitions":
            return folder.parent
    raise ProblemError(
        f"{definition}: not in a dataset; its workloads are looked for beside a folder `definitions`: move it to "
        "DATASET/definitions/<op type>/ and put them into DATASET/workloads/<op type>/"
    )


def read_definition(path: Path, root: Path) -> Problem:
    definition = read_document(Definition, path)
    if "run" not in defined_names(definition.reference, f"{path}: reference"):
        raise ProblemError(f"{path}: its reference defines no function `run`")
    workloads = tuple(_read_workloads(definition, root))
    try:
        source: DefinitionSource | Obstacle = _source_of(definition, workloads, root)
    except Obstructed as obstructed:
        source = Obstacle(reason=str(obstructed))
    return Problem(
        name=definition.name,
        site=f"flashinfer-bench:{definition.op_type}/{definition.name}",
        source=source,
        documents=DefinitionDocuments(definition=definition, workloads=workloads),
    )


def read_document(kind: type[D], path: Path) -> D:
    return _parse(kind, read_text(path), str(path))


def read_lines(kind: type[D], path: Path) -> Iterator[D]:
    """Documents of a JSONL file, a line each."""
    for number, line in enumerate(read_text(path).splitlines(), start=1):
        if line.strip():
            yield _parse(kind, line, f"{path}:{number}", first_line=number)


def _parse(kind: type[D], text: str, place: str, first_line: int | None = None) -> D:
    try:
        return kind.model_validate(json.loads(text, parse_constant=_refuse_constant))
    except json.JSONDecodeError as error:
        path = place.rsplit(":", 1)[0] if first_line else place
        line = error.lineno + (first_line - 1 if first_line else 0)
        raise ProblemError(f"{path}:{line}:{error.colno}: no JSON: {error.msg}; mend or remove it") from error
    except _NoNumber as error:
        raise ProblemError(
            f"{place}: no JSON: it holds the bare word {error}; write it as text, or leave it out"
        ) from error
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "it"
        name = kind.__name__.lower()
        raise ProblemError(f"{place}: no {name} of FlashInfer-Bench: {field}: {first['msg']}") from error


class _NoNumber(Exception):
    pass


def _refuse_constant(word: str) -> float:
    raise _NoNumber(word)


def _read_workloads(definition: Definition, root: Path) -> Iterator[Trace]:
    for path in sorted((root / "workloads").rglob(f"{definition.name}.jsonl")):
        for number, line in enumerate(read_lines(Trace, path), start=1):
            if line.definition != definition.name:
                raise ProblemError(f"{path}: workload {number} is of {line.definition}, not of {definition.name}")
            variable = {name for name, axis in definition.axes.items() if axis.type == "var"}
            if missing := variable - line.workload.axes.keys():
                raise ProblemError(f"{path}: workload {line.workload.uuid} gives no size of {sorted(missing)}")
            yield line


def _source_of(definition: Definition, workloads: Sequence[Trace], root: Path) -> DefinitionSource:
    if not workloads:
        where = f"workloads/{definition.op_type}/{definition.name}.jsonl"
        raise Obstructed(f"it has no workloads: there is no {where} in the dataset, or nothing in it")
    for name, axis in definition.axes.items():
        if axis.type not in ("const", "var"):
            raise Obstructed(f"its axis {name} is of type {axis.type}; constant and variable ones are read")
    axes = tuple(name for name, axis in definition.axes.items() if axis.type == "var")
    if taken := set(axes) & {identifier(name) for name in (*definition.inputs, *definition.outputs)}:
        raise Obstructed(f"{sorted(taken)} name an axis and a tensor, and a kernel's arguments have one name each")
    selection = _select(workloads, axes)
    return DefinitionSource(
        source=definition.reference,
        arguments=tuple(_argument(name, tensor, definition, workloads, root) for name, tensor in
                        definition.inputs.items()),
        outputs=tuple(
            TensorSpec(
                name=identifier(name),
                element_type=_element_type(name, tensor),
                shape=_shape(tensor, definition),
                dim_order=tuple(range(len(tensor.shape or ()))),
            )
            for name, tensor in definition.outputs.items()
        ),
        axes=axes,
        workloads=selection.workloads,
        covered_share=selection.covered_share,
    )  # fmt: skip


def _select(workloads: Sequence[Trace], axes: tuple[str, ...]) -> Selection:
    """Every shape, weighted by its number of lines, as long as they are few; else representatives."""
    counts: Counter[tuple[int, ...]] = Counter()
    for trace in workloads:
        sizes = tuple(trace.workload.axes[axis] for axis in axes)
        if any(size < 1 for size in sizes):
            raise Obstructed(f"its workload {trace.workload.uuid} has an empty axis: {trace.workload.axes}")
        counts[sizes] += 1
    seen = [
        SeenWorkload(
            axes=dict(zip(axes, sizes, strict=True)),
            calls_per_hour=float(count),
            calls_per_hour_by_class={},
            time_us=1.0,
        )
        for sizes, count in counts.items()
    ]
    return select_workloads(seen, KEEP, radius=0.0 if len(seen) <= KEEP else RADIUS)


def _argument(
    name: str, tensor: Tensor, definition: Definition, workloads: Sequence[Trace], root: Path
) -> InputSpec | FixedScalar:
    given = [trace.workload.inputs[name] for trace in workloads if name in trace.workload.inputs]
    kinds = sorted({each.type for each in given})
    if unknown := set(kinds) - {"random", "scalar", "safetensors"}:
        raise Obstructed(f"its input {name} comes as {sorted(unknown)[0]}; random, scalar and safetensors are read")
    if tensor.shape is None or "scalar" in kinds:
        return _scalar(name, given, len(workloads))
    element_type = _element_type(name, tensor)
    return InputSpec(
        name=identifier(name),
        element_type=element_type,
        shape=_shape(tensor, definition),
        dim_order=tuple(range(len(tensor.shape))),
        role=InputRole.ACTIVATION,
        below=_range(name, tensor, definition, workloads, root) if element_type in _INTEGERS else None,
    )


def _scalar(name: str, given: Sequence[WorkloadInput], workloads: int) -> FixedScalar:
    values = {each.value for each in given if each.type == "scalar" and each.value is not None}
    if (
        len(values) != 1
        or not all(map(math.isfinite, values))
        or len(given) < workloads
        or any(each.type != "scalar" for each in given)
    ):
        raise Obstructed(
            f"its scalar {name} has not one value in all workloads but {sorted(values)}: a kernel has it built in"
        )
    return FixedScalar(value=values.pop())


def _range(name: str, tensor: Tensor, definition: Definition, workloads: Sequence[Trace], root: Path) -> int:
    """Integers are drawn below the largest recorded one; where none is recorded, as FlashInfer-Bench would."""
    below = 0
    for trace in workloads:
        given = trace.workload.inputs.get(name)
        if given is None or given.type == "random":
            below = max(below, _RANDOM_BELOW)
            continue
        recorded = _load(name, given, root)
        expected = [trace.workload.axes.get(axis, definition.axes[axis].value) for axis in tensor.shape or ()]
        if list(recorded.shape) != expected:
            raise Obstructed(f"its recorded {name} is {list(recorded.shape)}, should be {expected}: {given.path}")
        if recorded.numel() and int(recorded.min()) < 0:
            raise Obstructed(f"its recorded {name} holds negative integers, and integers are drawn from 0 on here")
        below = max(below, int(recorded.max()) + 1 if recorded.numel() else 1)
    return below


def _load(name: str, given: WorkloadInput, root: Path) -> torch.Tensor:
    path = (root / (given.path or "")).resolve()
    if not path.is_relative_to(root.resolve()):
        raise Obstructed(f"its recorded {name} lies outside of the dataset: {given.path}")
    try:
        with safe_open(path, framework="pt") as file:
            tensor: torch.Tensor = file.get_tensor(given.tensor_key)
    except (OSError, SafetensorError) as error:
        raise Obstructed(f"its recorded {name} cannot be read from {path}: {error}") from error
    return tensor


def _shape(tensor: Tensor, definition: Definition) -> tuple[int | str, ...]:
    sizes = {name: axis.value for name, axis in definition.axes.items() if axis.type == "const"}
    shape = tuple(sizes.get(axis) or axis for axis in tensor.shape or ())
    if empty := [axis for axis in shape if sizes.get(str(axis)) == 0]:
        raise Obstructed(f"its axis {empty[0]} is 0 long")
    return shape


def _element_type(name: str, tensor: Tensor) -> ElementType:
    if tensor.dtype not in set(ElementType):
        raise Obstructed(f"its {name} is {tensor.dtype}, which kernels here do not take: {', '.join(ElementType)}")
    return ElementType(tensor.dtype)
