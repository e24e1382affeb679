"""Regions: runs of plain tensor operations between the child modules of a block, found by symbolic tracing.

A block that torch.fx cannot trace (it branches on values, or takes a cache) has none.
"""

import operator
import re
import textwrap
import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import fx, nn
from torch.fx.passes.tools_common import legalize_graph

# fx writes `x = self.gate(a);  a = None` to free memory early, and `_call_region` under its full path.
_DEAD_NAMES = re.compile(r";  [\w= ]* = None")
_REGION_CALL = re.compile(r"\w*_call_region\('(\w+)'(?:, )?")
_IN_PLACE = re.compile(r"[a-z0-9]_$")

Region = Callable[..., torch.Tensor | tuple[torch.Tensor, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class TracedBlock:
    block_source: str
    """`def make_forward(regions): ...`, see `traces.sites.OpSite.block_source`."""
    regions: dict[str, str]
    """By name, the source of `def region(<tensors>): ...` with the block's own operations, by torch alone."""


def trace_block(block: nn.Module, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> TracedBlock | None:
    """The regions of `block`, or None where it has none; the arguments are of one call, real or fake.

    Two operations that compute are enough for a region: below that there is nothing to fuse.
    """
    try:
        graph = _Tracer().trace(block)
        values = _values_of(block, graph, arguments, keywords)
    except (fx.proxy.TraceError, TypeError, ValueError, RuntimeError, AttributeError):
        return None  # what these tracers raise for a module that is no straight line of tensor operations
    if any(node.op == "call_method" and _IN_PLACE.search(str(node.target)) for node in graph.nodes):
        return None
    groups = [
        group for group in _groups(graph, values) if _is_worth_fusing(group, values) and _is_closed(group, values)
    ]
    if not groups:
        return None
    regions = {f"region{number}": _cut(graph, group, f"region{number}") for number, group in enumerate(groups)}
    forward = _source_of(legalize_graph(fx.GraphModule(block, graph)).graph, "self", "forward")
    sources = {name: _source_of(region, None, "region") for name, region in regions.items()}
    if forward is None or None in sources.values():
        return None
    return TracedBlock(
        block_source=f"def make_forward(regions):\n{textwrap.indent(forward, '    ')}\n    return forward\n",
        regions={name: source for name, source in sources.items() if source is not None},
    )


def load_region(source: str) -> Region:
    """The function that a region's source defines."""
    region: Region = _execute(source)["region"]
    return region


def make_forward(block_source: str, block: nn.Module, regions: Mapping[str, Region]) -> Callable[..., Any]:
    """The block's forward with `regions` in place, bound to `block`."""
    return types.MethodType(_execute(block_source)["make_forward"](regions), block)


def _execute(source: str) -> dict[str, Any]:
    """The source is trusted: it was written here, from the user's own model."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, "<region>", "exec"), namespace)
    return namespace


class _Tracer(fx.Tracer):
    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        """Children with parameters stay calls; activations and the like dissolve into operations."""
        return any(True for _ in m.parameters())


def _values_of(
    block: nn.Module, graph: fx.Graph, arguments: Sequence[Any], keywords: Mapping[str, Any]
) -> dict[fx.Node, Any]:
    """What every node evaluates to, to tell tensors from sizes and numbers."""
    values: dict[fx.Node, Any] = {}

    class Recorder(fx.Interpreter):
        def run_node(self, n: fx.Node) -> Any:
            values[n] = super().run_node(n)
            return values[n]

    placeholders = [node for node in graph.nodes if node.op == "placeholder"]
    given = list(arguments) + [
        keywords.get(str(node.target), node.args[0] if node.args else None) for node in placeholders[len(arguments) :]
    ]
    with torch.no_grad():
        Recorder(block, graph=graph).run(*given)
    return values


def _groups(graph: fx.Graph, values: dict[fx.Node, Any]) -> list[list[fx.Node]]:
    """Connected operations with equally many child calls before them: no path leaves such a group and comes back."""
    depth: dict[fx.Node, int] = {}
    group_of: dict[fx.Node, list[fx.Node]] = {}
    for node in graph.nodes:
        inputs = node.all_input_nodes
        depth[node] = max((depth[i] for i in inputs), default=0) + (node.op == "call_module")
        if not _is_operation(node, values):
            continue
        group = [node]
        for neighbour in inputs:
            other = group_of.get(neighbour)
            if other is not None and depth[neighbour] == depth[node] and other is not group:
                group = other + group
                for member in other:
                    group_of[member] = group
        for member in group:
            group_of[member] = group
    unique = {id(group): group for group in group_of.values()}
    order = {node: index for index, node in enumerate(graph.nodes)}
    ordered = [sorted(group, key=order.__getitem__) for group in unique.values()]
    return sorted(ordered, key=lambda group: order[group[0]])


def _is_operation(node: fx.Node, values: dict[fx.Node, Any]) -> bool:
    return node.op in ("call_function", "call_method") and bool(_tensors(values.get(node)))


def _tensors(value: Any) -> list[torch.Tensor]:
    """A tensor, or the parts of a tuple of tensors such as `chunk` returns; empty for anything else."""
    parts = value if isinstance(value, tuple | list) else [value]
    return list(parts) if all(isinstance(part, torch.Tensor) for part in parts) else []


def _is_worth_fusing(group: list[fx.Node], values: dict[fx.Node, Any]) -> bool:
    """Two operations that compute; views alone move nothing, and one operation has nothing to be fused with."""

    def storages(node: fx.Node) -> set[int]:
        return {tensor.untyped_storage()._cdata for tensor in _tensors(values[node])}

    computing = [n for n in group if not any(storages(n) & storages(i) for i in n.all_input_nodes)]
    return len(computing) > 1


def _is_closed(group: list[fx.Node], values: dict[fx.Node, Any]) -> bool:
    """Only tensors go in and come out; sizes and the like would have to become arguments of a kernel."""
    members = set(group)
    inputs = {i for node in group for i in node.all_input_nodes if i not in members}
    outputs = {node for node in group if any(user not in members for user in node.users)}
    return all(isinstance(values.get(node), torch.Tensor) for node in inputs | outputs)


def _cut(graph: fx.Graph, group: list[fx.Node], name: str) -> fx.Graph:
    """Takes `group` out of `graph`, leaves a call of region `name` there, returns what was taken."""
    members = set(group)
    inputs = list(dict.fromkeys(i for node in group for i in node.all_input_nodes if i not in members))
    outputs = [node for node in group if any(user not in members for user in node.users)]
    inner = fx.Graph()
    copies = {node: inner.placeholder(node.name) for node in inputs}
    for node in group:
        copies[node] = inner.node_copy(node, copies.__getitem__)
    inner.output(copies[outputs[0]] if len(outputs) == 1 else tuple(copies[node] for node in outputs))
    inner.lint()

    with graph.inserting_before(group[-1]):
        call = graph.create_node("call_function", _call_region, (name, *inputs), {}, name)
        parts = (
            [call]
            if len(outputs) == 1
            else [graph.call_function(operator.getitem, (call, i)) for i in range(len(outputs))]
        )
    for node, part in zip(outputs, parts, strict=True):
        node.replace_all_uses_with(part, delete_user_cb=lambda user: user not in members)
    for node in reversed(group):
        graph.erase_node(node)
    return inner


def _call_region(name: str, *tensors: torch.Tensor) -> torch.Tensor:
    """Stands in the graph for a region; `_source_of` writes it as a lookup."""
    raise RuntimeError(f"{name} stands for a region and is never called")


def _source_of(graph: fx.Graph, root: str | None, function: str) -> str | None:
    """`def <function>(<root>, <placeholders>)`; None where it calls something that is neither its own nor torch's."""
    for node in graph.nodes:
        node.type = None
    code = graph.python_code("self")
    foreign = {name for name, value in code.globals.items() if value is not torch and value is not _call_region}
    source = _DEAD_NAMES.sub("", code.src[code.src.index("def forward") :]).strip() + "\n"
    if any(re.search(rf"\b{name}\b", source) for name in foreign):
        return None
    signature = "(self, " if root is None else "(self"
    source = source.replace(f"def forward{signature}", f"def {function}({root or ''}", 1)
    return _REGION_CALL.sub(r'regions["\1"](', source)
