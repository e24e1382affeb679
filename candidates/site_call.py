"""How calls come at a site whose modules take more than tensors in order: what a runtime must know to serve them."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from candidates.call_shapes import CallShapes, is_of_cache
from candidates.exported_op import Obstructed, agree, identifier
from candidates.inputs import Distribution, draw_input
from candidates.reference import run_reference
from candidates.serving_build.manifest import CacheArgument, CallArguments
from candidates.site_callable import NamedCall, SiteCallable, is_named
from candidates.task import InputRole, KernelTask
from traces.sites import ObservedCache, OpSite


def call_at(model: nn.Module, site: OpSite, shapes: CallShapes, instance: int = 0) -> SiteCallable | NamedCall:
    """The site's own code, as a module of the tensors that `shapes` names. Raises Obstructed where it has no form."""
    plain = SiteCallable(model, site, instance).eval()
    if shapes.cache is None and not shapes.constants and plain.takes(shapes.arguments):
        return plain
    module = plain.target
    arguments = [argument for argument in shapes.arguments if not is_of_cache(shapes.cache, argument)]
    if not isinstance(module, nn.Module) or not all(is_named(module, argument) for argument in arguments):
        raise Obstructed(f"it takes its tensors as {', '.join(shapes.arguments)}, not as its leading arguments")
    return NamedCall(module, arguments, shapes.constants, shapes.cache).eval()


def input_name(shapes: CallShapes, argument: str) -> str:
    """Of a task's input: keys and values by these words alone."""
    return argument.rpartition(".")[2] if is_of_cache(shapes.cache, argument) else identifier(argument)


def describe_call(model: nn.Module, site: OpSite, task: KernelTask, shapes: CallShapes) -> CallArguments | None:
    """None where all calls bring the tensors as leading arguments.

    Runs every module of the site beside the task's reference on the module's own weights: raises Obstructed where one
    differs, or updates no single layer of its cache.
    """
    if isinstance(call_at(model, site, shapes), SiteCallable):
        return None
    workload = min(task.public_workloads, key=task.activation_bytes)
    rng = np.random.default_rng(0)
    drawn = {
        spec.name: draw_input(spec, workload.axes, Distribution.NORMAL, rng)
        for spec in task.inputs
        if spec.role is not InputRole.PARAMETER
    }
    layers: list[int] = []
    for instance, path in enumerate(site.module_paths):
        call = call_at(model, site, shapes, instance)
        assert isinstance(call, NamedCall), "modules of one site are called alike"
        named = drawn | {
            spec.name: _held(call.target, str(spec.attribute)) for spec in task.inputs_of(InputRole.PARAMETER)
        }
        expected = run_reference(task, named)
        states = [drawn[spec.name].clone() for spec in task.inputs_of(InputRole.STATE)]
        taken = _without_unused(call, shapes, task)
        others = [drawn[identifier(argument)] for argument in taken.arguments]
        with torch.no_grad():
            result = taken.as_served(*others, *states)
        results = [*((result,) if isinstance(result, torch.Tensor) else result), *states]
        if not all(map(agree, results, expected.values())):
            raise Obstructed(f"{path} does not do what {site.module_paths[0]} does")
        if taken.updated_layer is not None:
            layers.append(taken.updated_layer)
    return _describe(taken, shapes, task, layers)


def _describe(call: NamedCall, shapes: CallShapes, task: KernelTask, layers: Sequence[int]) -> CallArguments:
    given = {input_name(shapes, argument): argument for argument in shapes.arguments}
    names = [spec.name for spec in task.inputs if spec.role is not InputRole.PARAMETER]
    return CallArguments(
        tensors=tuple(given[name] for name in names),
        unused=tuple(argument for name, argument in given.items() if name not in names),
        constants=shapes.constants,
        cache=None if shapes.cache is None else _describe_cache(shapes.cache, layers),
        returns=call.returned,
    )


def _describe_cache(cache: ObservedCache, layers: Sequence[int]) -> CacheArgument:
    settings = {
        name: value for name, value in vars(cache.sample).items() if isinstance(value, bool | int | float | str)
    }
    return CacheArgument(
        argument=cache.argument,
        layers=tuple(layers),
        kind=_name_of(type(cache.sample)),
        layer_kind=_name_of(type(cache.sample.layers[cache.layer])),
        settings=settings,
        grows_along=cache.grows_along,
        grows_by=cache.grows_by,
    )


def _without_unused(call: NamedCall, shapes: CallShapes, task: KernelTask) -> NamedCall:
    names = {spec.name for spec in task.inputs}
    arguments = [argument for argument in call.arguments if identifier(argument) in names]
    return NamedCall(call.target, arguments, shapes.constants, shapes.cache).eval()


def _held(module: nn.Module, path: str) -> torch.Tensor:
    owner, _, name = path.rpartition(".")
    tensor: torch.Tensor = getattr(module.get_submodule(owner), name)
    return tensor


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
