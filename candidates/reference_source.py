"""Reference source: readable Python of an exported graph, `def reference(<parameters>, <activations>): ...`."""

import builtins
import inspect
import keyword
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch import fx

_INFIX = {"add": "+", "sub": "-", "mul": "*", "div": "/"}
_SYMBOL_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.floordiv: "//"}
_END = 2**63 - 1  # how aten writes an open end of a slice


class CannotWrite(Exception):
    """The graph does something that a plain function of tensors cannot; the message says what."""


def write_reference(graph: fx.Graph, names: Mapping[str, str]) -> str:
    """Source of `graph`, an export before decomposition; `names` gives its inputs, by placeholder, in order.

    Raises CannotWrite for a node that is neither an aten op nor arithmetic of sizes.
    """
    writer = _Writer(names)
    needed = _needed(graph)
    for node in graph.nodes:
        if node.op == "call_function" and node in needed:
            writer.write(node)
        elif node.op == "get_attr":
            raise CannotWrite(f"it holds the constant {node.target}")
    returned: Any = graph.output_node().args[0]
    results = ", ".join(writer.expression(result) for result in returned)
    lines = [*writer.lines, f"return {results}"]
    return f"def reference({', '.join(names.values())}):\n" + "".join(f"    {line}\n" for line in lines)


def _needed(graph: fx.Graph) -> set[fx.Node]:
    """Nodes that the results or an effect depend on."""
    needed: set[fx.Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output" or _has_effect(node) or not needed.isdisjoint(node.users):
            needed.add(node)
    return needed


def _has_effect(node: fx.Node) -> bool:
    target = node.target
    return isinstance(target, torch._ops.OpOverload) and target._schema.is_mutable


class _Writer:
    def __init__(self, names: Mapping[str, str]) -> None:
        self._names = dict(names)
        self._taken = {*names.values(), *keyword.kwlist, *dir(builtins), "torch", "reference"}
        self.lines: list[str] = []

    def write(self, node: fx.Node) -> None:
        if self._is_nothing(node):
            self._names[node.name] = self.expression(node.args[0])
            return
        text = self._call(node)
        if node.target is torch.ops.aten.sym_size.int:
            self._names[node.name] = text  # `x.shape[0]` reads better in place
            return
        if not node.users:
            self.lines.append(text)
            return
        name = node.name
        while name in self._taken:
            name += "_"
        self._taken.add(name)
        self._names[node.name] = name
        self.lines.append(f"{name} = {text}")

    def expression(self, value: Any) -> str:
        if isinstance(value, fx.Node):
            return self._names[value.name]
        if isinstance(value, list | tuple):
            return f"[{', '.join(self.expression(part) for part in value)}]"
        if value is None or isinstance(value, bool | int | float | str | torch.dtype):
            return repr(value) if value not in (float("inf"), float("-inf")) else f"float({str(value)!r})"
        raise CannotWrite(f"it passes {value!r}, a {type(value).__name__}")

    def _is_nothing(self, node: fx.Node) -> bool:
        """Casts to the type that a tensor has, dropout out of training, slices of everything, and aliases."""
        match node.target:
            case torch.ops.aten.slice.Tensor:
                _, _, start, end, step = _slice_arguments(node)
                return start in (None, 0) and end in (None, _END) and step == 1
            case torch.ops.aten.to.dtype | torch.ops.aten.to.dtype_layout | torch.ops.aten._to_copy.default:
                return bool(_value(node.args[0]).dtype == _value(node).dtype)
            case torch.ops.aten.dropout.default:
                return node.args[2] is False
            case torch.ops.aten.alias.default | torch.ops.aten.detach.default:
                return True
        return False

    def _call(self, node: fx.Node) -> str:
        target = node.target
        arguments = [self.expression(argument) for argument in _without_defaults(node)]
        if target is operator.getitem:
            return f"{arguments[0]}[{arguments[1]}]"
        if target in _SYMBOL_INFIX:
            return f"({arguments[0]} {_SYMBOL_INFIX[target]} {arguments[1]})"
        if not isinstance(target, torch._ops.OpOverload) or target.namespace != "aten":
            raise CannotWrite(f"it calls {target}, which is not an aten op")
        if target is torch.ops.aten.sym_size.int:
            return f"{arguments[0]}.shape[{arguments[1]}]"
        if target is torch.ops.aten.slice.Tensor:
            return self._slice(node)
        if target is torch.ops.aten.index.Tensor:
            # Not `x.index(…)`, which is another function.
            places: Any = node.args[1]
            indices = (":" if place is None else self.expression(place) for place in places)
            return f"{arguments[0]}[{', '.join(indices)}]"
        name = target._schema.name.removeprefix("aten::")
        keywords = [f"{key}={self.expression(value)}" for key, value in _keywords(node).items()]
        if name in _INFIX and len(arguments) == 2 and not keywords:
            return f"{arguments[0]} {_INFIX[name]} {arguments[1]}"
        if name == "neg":
            return f"-{arguments[0]}"
        first = target._schema.arguments[0].name
        if (taken := _functional_arguments(name, target)) is not None:
            return f"torch.nn.functional.{name}({', '.join(arguments[:taken] + keywords)})"
        if first == "self" and hasattr(torch.Tensor, name):
            return f"{arguments[0]}.{name}({', '.join(arguments[1:] + keywords)})"
        if hasattr(torch, name):
            return f"torch.{name}({', '.join(arguments + keywords)})"
        return f"torch.ops.{target}({', '.join(arguments + keywords)})"

    def _slice(self, node: fx.Node) -> str:
        source, dim, start, end, step = _slice_arguments(node)
        rank = _value(source).dim()
        low = "" if start in (None, 0) else self.expression(start)
        high = "" if end in (None, _END) else self.expression(end)
        part = f"{low}:{high}" + ("" if step == 1 else f":{self.expression(step)}")
        place = dim % rank
        index = f"..., {part}" if place == rank - 1 and rank > 1 else ", ".join([":"] * place + [part])
        return f"{self.expression(source)}[{index}]"


def _slice_arguments(node: fx.Node) -> list[Any]:
    """Source, dim, start, end, step."""
    given: list[Any] = list(node.args)
    return given + [0, None, None, 1][len(given) - 1 :]


def _keywords(node: fx.Node) -> dict[str, Any]:
    """Without the place of a new tensor, which is the CPU here; with its type, which the oracle widens."""
    keywords = dict(node.kwargs)
    if keywords.get("device") == torch.device("cpu"):
        for name, usual in (("device", torch.device("cpu")), ("layout", torch.strided), ("pin_memory", False)):
            if keywords.get(name) in (usual, None):
                keywords.pop(name, None)
        if keywords.get("dtype") is None and _value(node).dtype == torch.float32:
            keywords["dtype"] = torch.float32
    return {name: value for name, value in keywords.items() if value is not None}


def _without_defaults(node: fx.Node) -> list[Any]:
    """Arguments up to the last that differs from the op's default: torch's wrappers do not take all that aten takes."""
    arguments: list[Any] = list(node.args)
    if isinstance(node.target, torch._ops.OpOverload):
        declared = node.target._schema.arguments
        while len(arguments) > 1 and _is_default(arguments[-1], declared[len(arguments) - 1]):
            arguments.pop()
    return arguments


def _is_default(value: Any, argument: Any) -> bool:
    return bool(argument.has_default_value() and not isinstance(value, fx.Node) and value == argument.default_value)


def _functional_arguments(name: str, target: torch._ops.OpOverload) -> int | None:
    """How many of aten's arguments torch.nn.functional takes under this name, in aten's order; None: it does not.

    Embedding, say, turns them around. What wrappers leave out says how to compute, such as `cudnn_enable`.
    """
    function = getattr(torch.nn.functional, name, None)
    if function is None or hasattr(torch.Tensor, name):
        return None
    own = ["input" if argument.name == "self" else argument.name for argument in target._schema.arguments]
    try:
        parameters = list(inspect.signature(function).parameters)
    except ValueError:
        return len(own)  # a binding of the aten op itself
    return len(parameters) if own[: len(parameters)] == parameters[: len(own)] else None


def _value(node: Any) -> torch.Tensor:
    """The fake tensor that export saw there."""
    value: torch.Tensor = node.meta["val"]
    return value
