"""Any task as a FlashInfer-Bench definition with workloads, for those that were not imported from one."""

import re
import uuid
from collections.abc import Sequence
from typing import Any

from candidates.exported_op import Obstructed, identifier
from candidates.problems.documents import Definition, Trace
from candidates.problems.problem import DefinitionDocuments, FixedScalar
from candidates.task import InputRole, InputSpec, KernelTask, TensorSpec

_NAMESPACE = uuid.UUID("6f1d3d1e-6a55-5f0e-9d0b-1b6a1c8b7a10")
"""Any fixed one: a workload keeps its uuid."""


def define(task: KernelTask) -> DefinitionDocuments:
    """Public workloads only, every input random. Raises Obstructed for what the layout has no words for."""
    tensors: tuple[TensorSpec, ...] = (*task.inputs, *task.outputs)
    if states := task.inputs_of(InputRole.STATE):
        raise Obstructed(f"it changes its input {states[0].name}, and a definition's inputs do not change")
    for tensor in tensors:
        if tensor.dim_order != tuple(range(len(tensor.shape))):
            raise Obstructed(
                f"the dims of {tensor.name} lie in memory as {tensor.dim_order}, and a definition says none"
            )
    slug = re.sub(r"[^a-z0-9]+", "_", task.op.lower()).strip("_") or "unnamed"
    constants = sorted({size for tensor in tensors for size in tensor.shape if isinstance(size, int)})
    names: dict[int | str, str] = {size: _free_name(f"size_{size}", task.axes) for size in constants}
    names |= {axis: axis for axis in task.axes}
    definition = Definition.model_validate(
        {
            "name": f"{slug}_{task.id[:8]}",
            "op_type": slug,
            "description": f"{task.op} at {task.site}",
            "axes": {axis: {"type": "var"} for axis in task.axes}
            | {names[size]: {"type": "const", "value": size} for size in constants},
            "inputs": _tensors(task.inputs, names),
            "outputs": _tensors(task.outputs, names),
            "reference": "import torch\n\n\n" + task.reference.replace("def reference(", "def run(", 1),
        }
    )
    random = {spec.name: {"type": "random"} for spec in task.inputs}
    workloads = tuple(
        Trace.model_validate(
            {
                "definition": definition.name,
                "workload": {
                    "axes": workload.axes,
                    "inputs": random,
                    "uuid": str(uuid.uuid5(_NAMESPACE, f"{task.id}/{workload.name}")),
                },
                "solution": None,
                "evaluation": None,
            }
        )
        for workload in task.public_workloads
    )
    return DefinitionDocuments(definition=definition, workloads=workloads)


def arguments_of(task: KernelTask, documents: DefinitionDocuments) -> list[InputSpec | FixedScalar]:
    """The definition's inputs in their order: a tensor of the task, or the scalar that the task has built in."""
    tensors = {spec.name: spec for spec in task.inputs}
    given = documents.workloads[0].workload.inputs
    arguments: list[InputSpec | FixedScalar] = []
    for name in documents.definition.inputs:
        if identifier(name) in tensors:
            arguments.append(tensors[identifier(name)])
        else:
            value = given[name].value
            assert value is not None, f"{name} is neither a tensor of task {task.id} nor a scalar"
            arguments.append(FixedScalar(value=value))
    return arguments


def _tensors(specs: Sequence[TensorSpec], names: dict[int | str, str]) -> dict[str, Any]:
    return {
        spec.name: {"shape": [names[size] for size in spec.shape], "dtype": spec.element_type.value} for spec in specs
    }


def _free_name(name: str, taken: Sequence[str]) -> str:
    while name in taken:
        name += "_"
    return name
