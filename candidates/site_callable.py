"""SiteCallable: what the served model runs at an op site now, as a module of positional tensors."""

import importlib
import inspect
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from traces.regions import load_region
from traces.sites import OpSite, SiteKind


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
        positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        leading = parameters[: len(arguments)]
        is_positional = all(parameter.kind in positional for parameter in leading)
        return is_positional and tuple(parameter.name for parameter in leading) == arguments
