"""Interpose at op sites: run something of one's own around every call that the model makes there."""

import contextlib
import importlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from torch import nn

from traces.regions import load_region, make_forward
from traces.sites import OpSite, SiteKind

Wrap = Callable[[int, Callable[..., Any]], Callable[..., Any]]
"""Of the site's index and the original callable; returns what is called in its place."""


@contextlib.contextmanager
def interposed(model: nn.Module, sites: Sequence[OpSite], wrap: Wrap) -> Iterator[None]:
    """Within it, every call at `sites` goes through `wrap`; afterwards the model is as it was."""
    with contextlib.ExitStack() as undo:
        _interpose_regions(model, sites, wrap, undo)
        for index, site in enumerate(sites):
            match site.kind:
                case SiteKind.MODULE:
                    for path in site.module_paths:
                        module = model.get_submodule(path)
                        replace_attribute(module, "forward", wrap(index, module.forward), undo)
                case SiteKind.FUNCTION:
                    owner, name = resolve_function(site.function or "")
                    replace_attribute(owner, name, wrap(index, getattr(owner, name)), undo)
                case SiteKind.REGION:
                    pass  # all regions of a block at once, above
        yield


def replace_attribute(owner: Any, name: str, value: Any, undo: contextlib.ExitStack) -> None:
    """Sets `owner.name` until `undo` is closed; an attribute that only the class had is removed again."""
    if name in vars(owner):
        undo.callback(setattr, owner, name, getattr(owner, name))
    else:
        undo.callback(delattr, owner, name)
    setattr(owner, name, value)


def resolve_function(path: str) -> tuple[Any, str]:
    """The module in which callers look the function up, and its name there."""
    module, name = path.rsplit(".", 1)
    return importlib.import_module(module), name


def _interpose_regions(model: nn.Module, sites: Sequence[OpSite], wrap: Wrap, undo: contextlib.ExitStack) -> None:
    regions_of: dict[str, dict[str, Callable[..., Any]]] = {}
    block_sources: dict[str, str] = {}
    for index, site in enumerate(sites):
        if site.kind is SiteKind.REGION:
            region = wrap(index, load_region(site.region_source or ""))
            for path in site.module_paths:
                regions_of.setdefault(path, {})[site.region or ""] = region
                block_sources[path] = site.block_source or ""
    for path, regions in regions_of.items():
        block = model.get_submodule(path)
        replace_attribute(block, "forward", make_forward(block_sources[path], block, regions), undo)
