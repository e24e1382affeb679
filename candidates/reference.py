"""The reference of a task: run in its working types (what PyTorch gives) and in float64 (the oracle)."""

import ast
import re
from collections.abc import Callable, Mapping

import torch

from candidates.task import InputRole, KernelTask

Reference = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]

_WORKING_FLOATS = re.compile(r"\btorch\.(float32|float16|bfloat16|half|float)\b")
_CASTS = re.compile(r"\.(float|half|bfloat16)\(\)")


_MAKERS = frozenset(
    (
        *("arange", "as_tensor", "asarray", "empty", "empty_permuted", "empty_quantized", "empty_strided", "eye"),
        *("full", "linspace", "logspace", "ones", "rand", "randint", "randn", "randperm", "range", "scalar_tensor"),
        *("tensor", "tril_indices", "triu_indices", "zeros"),
        *(f"{window}_window" for window in ("bartlett", "blackman", "hamming", "hann", "kaiser")),
        *(f"sparse_{layout}_tensor" for layout in ("bsc", "bsr", "compressed", "coo", "csc", "csr")),
    )
)
"""Those of `torch` itself among torch.utils._device._device_constructors. `with torch.device(…)` knows them too, but
looks at every op of a reference that is timed."""


def load_reference(source: str, device: torch.device | None = None) -> Reference:
    """The function `reference` that `source` defines. Raises ValueError when it defines none.

    The source is trusted: it comes from extraction or from the user's own task file, never from an agent. It says not
    where tensors are that it makes itself: on `device`, where one is given.
    """
    namespace: dict[str, object] = {"torch": torch, "_device": device}
    tree = ast.parse(source)
    if device is not None:
        tree = ast.fix_missing_locations(_Placing().visit(tree))
    exec(compile(tree, "<reference>", "exec"), namespace)
    reference = namespace.get("reference")
    if not callable(reference):
        raise ValueError("the reference source defines no function `reference`")
    return reference


class _Placing(ast.NodeTransformer):
    """Gives `torch.arange(…)` and its like the device that they do not name."""

    def visit_Call(self, node: ast.Call) -> ast.Call:
        self.generic_visit(node)
        match node.func:
            case ast.Attribute(value=ast.Name(id="torch"), attr=name) if name in _MAKERS:
                if all(keyword.arg != "device" for keyword in node.keywords):
                    node.keywords.append(ast.keyword(arg="device", value=ast.Name(id="_device", ctx=ast.Load())))
        return node


def run_reference(task: KernelTask, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """What PyTorch gives in the working types: outputs by name, then states by name. `inputs` stay untouched."""
    return _run(task, load_reference(task.reference), inputs, lambda tensor: tensor)


def run_oracle(task: KernelTask, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same function of exactly the same input values in float64; integers stay integers."""
    exact = load_reference(_CASTS.sub(".double()", _WORKING_FLOATS.sub("torch.float64", task.reference)))
    return _run(task, exact, inputs, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


def _run(
    task: KernelTask,
    reference: Reference,
    inputs: Mapping[str, torch.Tensor],
    convert: Callable[[torch.Tensor], torch.Tensor],
) -> dict[str, torch.Tensor]:
    # Only states are written: the others need no copy.
    states = {spec.name: convert(inputs[spec.name].clone()) for spec in task.inputs_of(InputRole.STATE)}
    arguments = [states[spec.name] if spec.name in states else convert(inputs[spec.name]) for spec in task.inputs]
    with torch.no_grad():
        returned = reference(*arguments)
    results = (returned,) if isinstance(returned, torch.Tensor) else tuple(returned)
    if len(results) != len(task.outputs):
        raise ValueError(f"the reference of {task.op} returns {len(results)} tensors, the task has {len(task.outputs)}")
    return {spec.name: result for spec, result in zip(task.outputs, results, strict=True)} | states
