"""What the served model runs at an op site now, as a module of positional tensors."""

import copy
import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import nn

from traces.cache_growth import HeldByLayer, held_by_layers, updated_layers
from traces.regions import load_region
from traces.sites import Constant, ObservedCache, OpSite, SiteKind

_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class SiteCallable(nn.Module):
    """`forward(*tensors)` calls the module, function or region; `instance` picks one of a site's modules."""

    def __init__(self, model: nn.Module, site: OpSite, instance: int = 0) -> None:
        super().__init__()
        self.target: Callable[..., Any]
        match site.kind:
            case SiteKind.MODULE:
                self.target = model.get_submodule(site.module_paths[instance])
            case SiteKind.FUNCTION:
                module, name = (site.function or "").rsplit(".", 1)
                self.target = getattr(importlib.import_module(module), name)
            case SiteKind.REGION:
                self.target = load_region(site.region_source or "")

    def forward(self, *tensors: torch.Tensor) -> Any:
        return self.target(*tensors)

    def takes(self, arguments: tuple[str, ...]) -> bool:
        """Whether tensors of these names, and nothing before or between them, are its leading positional arguments."""
        function = self.target.forward if isinstance(self.target, nn.Module) else self.target
        try:
            parameters = list(inspect.signature(function).parameters.values())
        except ValueError:
            return all(argument.startswith("arguments.") for argument in arguments)
        leading = parameters[: len(arguments)]
        is_positional = all(parameter.kind in _POSITIONAL for parameter in leading)
        return is_positional and tuple(parameter.name for parameter in leading) == arguments


class NamedCall(nn.Module):
    """A module that is called by keyword: with tensors alone or in tuples, constants, and a cache that it updates.

    The tensors are positional here. The last two are the keys and values of a cache, as they are after the call.
    """

    def __init__(
        self,
        target: nn.Module,
        arguments: Sequence[str],
        constants: Mapping[str, Constant],
        cache: ObservedCache | None,
    ) -> None:
        """`arguments` as in SiteCall, those of the cache left out."""
        super().__init__()
        self.target = target
        self.arguments = tuple(arguments)
        self._constants = dict(constants)
        self._cache = cache
        # Some architectures ask for a mask, and decode with none.
        self._asked_for = [
            parameter.name
            for parameter in inspect.signature(target.forward).parameters.values()
            if parameter.default is parameter.empty and parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD
        ]
        self.returned: tuple[bool, ...] | None = None
        """Of a call that returned a tuple: which of its parts are not None."""
        self.updated_layer: int | None = None
        """Of the cache, by the last call of `as_served`."""

    def forward(self, *tensors: torch.Tensor) -> Any:
        """With a cache that holds its keys and values where they are to be: new ones are written to the last places.

        Returns what the module does, without None.
        """
        if self._cache is None:
            return self._call(tensors)
        *others, keys, values = tensors
        return self._call(others, _growing_in_place(self._cache, keys, values))

    def as_served(self, *tensors: torch.Tensor) -> Any:
        """With a cache of the kind that serving has; what it holds afterwards is copied to the last two tensors."""
        if self._cache is None:
            return self._call(tensors)
        *others, keys, values = tensors
        before = [_without_new(self._cache, tensor).contiguous() for tensor in (keys, values)]
        cache = _filled(self._cache, *before)
        held: list[HeldByLayer] = held_by_layers(cache) or []
        result = self._call(others, cache)
        (self.updated_layer,) = updated_layers(cache, held)
        layer = cache.layers[self.updated_layer]
        keys.copy_(layer.keys)
        values.copy_(layer.values)
        return result

    def _call(self, tensors: Sequence[torch.Tensor], cache: Any = None) -> Any:
        keywords: dict[str, Any] = dict.fromkeys(self._asked_for)
        keywords |= self._constants
        for argument, tensor in zip(self.arguments, tensors, strict=True):
            name, _, is_part = argument.partition(".")
            keywords[name] = (*(keywords.get(name) or ()), tensor) if is_part else tensor
        if self._cache is not None:
            keywords[self._cache.argument] = cache
        result = self.target(**keywords)
        if not isinstance(result, tuple):
            return result
        self.returned = tuple(part is not None for part in result)
        return tuple(part for part in result if part is not None)


def is_named(module: nn.Module, argument: str) -> bool:
    """Whether the module's forward takes the argument by keyword."""
    parameter = inspect.signature(module.forward).parameters.get(argument.partition(".")[0])
    return parameter is None or parameter.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD


def _filled(observed: ObservedCache, keys: torch.Tensor, values: torch.Tensor) -> Any:
    """A cache of the same kind in which each layer like the observed one holds these."""
    cache = copy.copy(observed.sample)
    kind = type(cache.layers[observed.layer])
    cache.layers = [copy.copy(layer) for layer in cache.layers]
    for layer in cache.layers:
        if type(layer) is kind:
            layer.keys, layer.values = keys, values
    return cache


def _growing_in_place(observed: ObservedCache, keys: torch.Tensor, values: torch.Tensor) -> Any:
    cache = _filled(observed, _without_new(observed, keys), _without_new(observed, values))

    def update(new_keys: torch.Tensor, new_values: torch.Tensor, *_: Any, **__: Any) -> tuple[torch.Tensor, ...]:
        for held, new in ((keys, new_keys), (values, new_values)):
            added = new.shape[observed.grows_along]
            held[(*[slice(None)] * observed.grows_along, slice(-added, None))].copy_(new)
        return keys, values

    for layer in cache.layers:
        if type(layer) is type(cache.layers[observed.layer]):
            layer.update = update
    return cache


def _without_new(observed: ObservedCache, tensor: torch.Tensor) -> torch.Tensor:
    """What it held before the call."""
    length = tensor.shape[observed.grows_along] - observed.grows_by
    return tensor.narrow(observed.grows_along, 0, length)
