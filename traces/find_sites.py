"""Finding the op sites of a model: by the structure of its modules and by what one forward pass calls.

No op is named here: a class, a function or an activation that nobody listed is found like any other.
"""

import contextlib
import inspect
import re
import sys
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from traces.interpose import replace_attribute
from traces.regions import trace_block
from traces.sites import OpSite, SiteKind

_Scalar = bool | int | float | str | None


def find_sites(model: nn.Module, run: Callable[[], object]) -> tuple[OpSite, ...]:
    """Module, function and region sites of `model`, outermost level last, each level in the order of the modules.

    `run` makes one forward pass of `model` (fake tensors do), so that functions and regions show themselves.
    """
    modules = dict(model.named_modules())
    levels = _levels(model)
    groups = _group(modules, levels)
    leaves = {path for path, level in levels.items() if level == "leaf"}
    blocks = [paths[0] for (level, _), paths in groups.items() if level == "block"]
    watched = _watch(model, leaves, blocks, run)

    names = _names(modules, groups)
    module_sites = [
        OpSite(op=names[key], kind=SiteKind.MODULE, level=key[0], pattern=_pattern(paths), module_paths=tuple(paths))
        for key, paths in groups.items()
    ]
    region_sites = []
    for key, paths in groups.items():
        if key[0] == "block" and paths[0] in watched.block_calls:
            region_sites += _region_sites(modules[paths[0]], names[key], paths, watched.block_calls[paths[0]])
    function_sites = [
        OpSite(
            op=path.rsplit(".", 1)[1],
            kind=SiteKind.FUNCTION,
            level="leaf",
            pattern=_pattern(callers),
            module_paths=tuple(callers),
            function=path,
        )
        for path, callers in watched.functions.items()
    ]
    order = {"leaf": 0, "block": 1, "layer": 2}
    return tuple(sorted([*module_sites, *function_sites, *region_sites], key=lambda site: order[site.level]))


def layer_kinds(sites: Iterable[OpSite]) -> tuple[tuple[str, ...], ...]:
    """Paths of the model's repeated layers, those of one kind (that see the same shapes) together."""
    return tuple(site.module_paths for site in sites if site.level == "layer")


def _levels(model: nn.Module) -> dict[str, str]:
    """Level by path. Layers are the elements of the outermost module lists; blocks are those of their children that
    hold leaves; leaves are the innermost modules with parameters."""
    levels: dict[str, str] = {}
    layers: list[str] = []
    for path, module in model.named_modules():
        is_inside = any(path.startswith(f"{layer}.") for layer in layers)
        if isinstance(module, nn.ModuleList) and not is_inside:
            layers += [f"{path}.{name}" for name, child in module.named_children() if _has_parameters(child)]
        children = [child for child in module.children() if _has_parameters(child)]
        if path in layers and children:
            levels[path] = "layer"
        elif path.rpartition(".")[0] in layers and children:
            levels[path] = "block"
        elif _has_parameters(module) and not children and path:
            levels[path] = "leaf"
    return levels


def _has_parameters(module: nn.Module) -> bool:
    return next(module.parameters(), None) is not None


_GroupKey = tuple[str, Hashable]


def _group(modules: Mapping[str, nn.Module], levels: Mapping[str, str]) -> dict[_GroupKey, list[str]]:
    """Paths of the modules that one kernel could serve: same class, same parameter shapes, same settings, all
    through their children."""
    indices = _index_settings(modules)
    groups: dict[_GroupKey, list[str]] = {}
    for path, level in levels.items():
        signature = tuple(
            (name, type(child).__qualname__, _shapes(child), _settings(child, indices))
            for name, child in modules[path].named_modules()
        )
        groups.setdefault((level, signature), []).append(path)
    return groups


def _shapes(module: nn.Module) -> tuple[tuple[str, tuple[int, ...], str], ...]:
    own = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
    return tuple((name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in own)


def _settings(module: nn.Module, indices: set[tuple[type, str]]) -> tuple[tuple[str, _Scalar], ...]:
    return tuple(
        (name, value)
        for name, value in vars(module).items()
        if not name.startswith("_")
        and name != "training"
        and isinstance(value, _Scalar)
        and (type(module), name) not in indices
    )


def _index_settings(modules: Mapping[str, nn.Module]) -> set[tuple[type, str]]:
    """Settings that only say which layer a module is in: equal to a number in the path, for every instance."""
    seen: dict[tuple[type, str], list[bool]] = {}
    for path, module in modules.items():
        numbers = {int(part) for part in path.split(".") if part.isdigit()}
        for name, value in vars(module).items():
            if type(value) is int:
                seen.setdefault((type(module), name), []).append(value in numbers)
    return {key for key, matches in seen.items() if all(matches)}


def _names(modules: Mapping[str, nn.Module], groups: Mapping[_GroupKey, list[str]]) -> dict[_GroupKey, str]:
    """The class, and where it has several groups their integer settings, or else their parameters' sizes."""
    indices = _index_settings(modules)
    of_class: dict[str, list[_GroupKey]] = {}
    for key, paths in groups.items():
        of_class.setdefault(type(modules[paths[0]]).__name__, []).append(key)
    names: dict[_GroupKey, str] = {}
    for class_name, keys in of_class.items():
        firsts = [modules[groups[key][0]] for key in keys]
        settings = [_settings(module, indices) for module in firsts]
        marks = [",".join(str(value) for _, value in setting if type(value) is int) for setting in settings]
        if len(set(marks)) < len(keys):
            marks = [",".join(str(size) for p in module.parameters() for size in p.shape) for module in firsts]
        for number, (key, mark) in enumerate(zip(keys, marks, strict=True)):
            is_unique = marks.count(mark) == 1
            names[key] = class_name if len(keys) == 1 else f"{class_name}[{mark if is_unique else f'#{number}'}]"
    return names


def _pattern(paths: Iterable[str]) -> str:
    """`model.layers.*.mlp`; several joined by `|`."""
    return "|".join(dict.fromkeys(re.sub(r"(^|\.)\d+(?=\.|$)", r"\1*", path) for path in paths))


def _region_sites(block: nn.Module, op: str, paths: list[str], call: "_BlockCall") -> list[OpSite]:
    traced = trace_block(block, call.arguments, call.keywords)
    if traced is None:
        return []
    return [
        OpSite(
            op=f"{op}.{name}",
            kind=SiteKind.REGION,
            level="leaf",
            pattern=_pattern(paths),
            module_paths=tuple(paths),
            region=name,
            block_source=traced.block_source,
            region_source=source,
        )
        for name, source in traced.regions.items()
    ]


@dataclass(frozen=True, slots=True, kw_only=True)
class _BlockCall:
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


@dataclass(slots=True, kw_only=True)
class _Watched:
    functions: dict[str, list[str]] = field(default_factory=dict)
    """Dotted path of a function → paths of the modules that call it."""
    block_calls: dict[str, _BlockCall] = field(default_factory=dict)
    """How each block was called, by path."""


def _watch(model: nn.Module, leaves: set[str], blocks: list[str], run: Callable[[], object]) -> _Watched:
    """Runs the model and notes which functions of tensors its modules call outside of leaves and of each other."""
    watched = _Watched()
    callers: list[str] = []  # the modules whose forward is running, innermost last
    silenced = [0]

    def watch_module(path: str, forward: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any, **keywords: Any) -> Any:
            if path in blocks:
                watched.block_calls.setdefault(path, _BlockCall(arguments=arguments, keywords=keywords))
            callers.append(path)
            silenced[0] += path in leaves
            try:
                return forward(*arguments, **keywords)
            finally:
                callers.pop()
                silenced[0] -= path in leaves

        return watching

    def watch_function(path: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def watching(*arguments: Any, **keywords: Any) -> Any:
            values = [*arguments, *keywords.values()]
            tensors = [value for value in values if isinstance(value, torch.Tensor)]
            is_plain = all(value is None or isinstance(value, torch.Tensor | _Scalar) for value in values)
            is_site = is_plain and len(tensors) >= 2 and not silenced[0] and bool(callers)
            if is_site and callers[-1] not in watched.functions.setdefault(path, []):
                watched.functions[path].append(callers[-1])
            silenced[0] += is_site
            try:
                return function(*arguments, **keywords)
            finally:
                silenced[0] -= is_site

        return watching

    with contextlib.ExitStack() as undo:
        for path, module in model.named_modules():
            if path:
                replace_attribute(module, "forward", watch_module(path, module.forward), undo)
        for path, function in _candidate_functions(model).items():
            owner = sys.modules[path.rpartition(".")[0]]
            replace_attribute(owner, path.rpartition(".")[2], watch_function(path, function), undo)
        run()
    return watched


def _candidate_functions(model: nn.Module) -> dict[str, Callable[..., Any]]:
    """Functions of the files that define the model's modules, and torch's own functional ones, by dotted path."""
    files = {type(module).__module__ for module in model.modules()}
    files = {name for name in files if not name.startswith("torch.")}
    functions: dict[str, Callable[..., Any]] = {
        f"{name}.{attribute}": value
        for name in sorted(files)
        for attribute, value in vars(sys.modules[name]).items()
        if inspect.isfunction(value) and value.__module__ == name
    }
    for attribute, value in vars(torch.nn.functional).items():
        if not attribute.startswith("_") and (inspect.isfunction(value) or inspect.isbuiltin(value)):
            functions[f"torch.nn.functional.{attribute}"] = value
    return functions
