"""What a call does to a key/value cache among its arguments, told by what it does: no class of a cache is named."""

from collections.abc import Sequence
from typing import Any

import torch

from traces.sites import ObservedCache

HeldByLayer = tuple[Any, Any]
"""Keys and values: tensors, or None of a layer that was never used."""


def held_by_layers(value: Any) -> list[HeldByLayer] | None:
    """What each layer of a key/value cache holds; None for what is none: an object whose `layers` have `keys` and
    `values`."""
    layers = getattr(value, "layers", None)
    if not isinstance(layers, list) or not all(hasattr(each, "keys") and hasattr(each, "values") for each in layers):
        return None
    return [(layer.keys, layer.values) for layer in layers]


def updated_layers(cache: Any, before: Sequence[HeldByLayer]) -> list[int]:
    """Which layers hold other tensors than `before`."""
    now = held_by_layers(cache) or []
    return [
        index
        for index, (keys, values) in enumerate(now)
        if index >= len(before) or keys is not before[index][0] or values is not before[index][1]
    ]


def find_growth(argument: str, cache: Any, before: Sequence[HeldByLayer]) -> ObservedCache | None:
    """None unless one layer became longer, keys and values along one and the same dim."""
    updated = updated_layers(cache, before)
    if len(updated) != 1 or updated[0] >= len(before):
        return None
    (layer,) = updated
    now = cache.layers[layer]
    growth = _growth(before[layer][0], now.keys)
    if growth is None or growth != _growth(before[layer][1], now.values):
        return None
    dim, by = growth
    return ObservedCache(argument=argument, layer=layer, grows_along=dim, grows_by=by, sample=cache)


def _growth(old: Any, new: Any) -> tuple[int, int] | None:
    """The one dim that became longer, and by how much."""
    if not isinstance(old, torch.Tensor) or not isinstance(new, torch.Tensor) or old.dim() != new.dim():
        return None
    grown = [(dim, new.shape[dim] - old.shape[dim]) for dim in range(new.dim()) if new.shape[dim] != old.shape[dim]]
    return grown[0] if len(grown) == 1 and grown[0][1] > 0 else None
