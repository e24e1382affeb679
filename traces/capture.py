"""Shape capture: which calls the traffic makes at every op site, seen on fake tensors."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from traces.cache_growth import HeldByLayer, find_growth, held_by_layers
from traces.find_sites import find_sites, layer_kinds
from traces.interpose import interposed, replace_attribute
from traces.model_calls import CallRate, ModelCall, model_calls
from traces.replay.step import EngineStep
from traces.served_model import ModelError, SyntheticCache, fake_mode_of, forward
from traces.sites import CapturedSite, Constant, ObservedCache, ObservedTensor, OpSite, SiteCall, SiteKind

PROBES = (
    ModelCall(batch=2, tokens=3, context=7),
    ModelCall(batch=3, tokens=5, context=11),
    ModelCall(batch=3, tokens=1, context=6),
    ModelCall(batch=5, tokens=1, context=12),
)
"""Calls that no traffic makes: all their sizes differ, so they tell which dims follow batch, tokens and context also
where the traffic holds one of them still. Some are those of decode, which some sites see by other arguments."""


@dataclass(frozen=True, slots=True)
class CallForm:
    """What tells one call at a site from another."""

    tensors: tuple[ObservedTensor, ...]
    cache: ObservedCache | None
    constants: tuple[tuple[str, Constant], ...]
    settings: tuple[tuple[str, str], ...]


def find_model_sites(model: nn.Module) -> tuple[OpSite, ...]:
    """The op sites of a served model; `model` is its fake module.

    Raises ModelError for a model whose forward pass fake tensors cannot follow.
    """
    probe = PROBES[0]
    try:
        with fake_mode_of(model):
            return find_sites(model, lambda: forward(model, probe, SyntheticCache(model, probe)))
    except (RuntimeError, TypeError) as error:
        raise ModelError(
            f"{type(model).__name__} cannot run on fake tensors ({str(error).splitlines()[0]}): "
            "choose a model whose forward pass does not depend on values"
        ) from error


def capture_calls(
    model: nn.Module, sites: Sequence[OpSite], steps: Sequence[EngineStep], span_s: float
) -> tuple[CapturedSite, ...]:
    """Every distinct call at every site over `steps`, heaviest first; `span_s` is the time that the replay covers.

    `model` is the fake module. Probes are among the calls, with a rate of 0.
    """
    rates = {probe: CallRate() for probe in PROBES} | model_calls(steps, span_s)
    sources: list[dict[CallForm, dict[ModelCall, CallRate]]] = [{} for _ in sites]
    with fake_mode_of(model):
        for call, rate in rates.items():
            for of_site, forms in zip(sources, observe(model, sites, call), strict=True):
                for form, times in forms.items():
                    of_site.setdefault(form, {})[call] = rate * times
    return tuple(
        CapturedSite(site=site, calls=_site_calls(of_site)) for site, of_site in zip(sites, sources, strict=True)
    )


def observe(model: nn.Module, sites: Sequence[OpSite], call: ModelCall) -> list[dict[CallForm, int]]:
    """Of each site the distinct calls that one forward pass makes there, with how many times.

    Layers of one kind see the same shapes, so one of each kind runs and the others repeat its result.
    """
    seen: list[dict[CallForm, int]] = [{} for _ in sites]
    times = [1]

    def wrap(index: int, original: Callable[..., Any]) -> Callable[..., Any]:
        names = _ArgumentNames(original, binds_constants=sites[index].kind is SiteKind.MODULE)

        def observing(*arguments: Any, **keywords: Any) -> Any:
            observation = names.observe(arguments, keywords)
            result = original(*arguments, **keywords)
            form = observation.form()
            seen[index][form] = seen[index].get(form, 0) + times[0]
            return result

        return observing

    with interposed(model, sites, wrap), _one_layer_of_each_kind(model, layer_kinds(sites), times):
        forward(model, call, SyntheticCache(model, call, memory_bytes=0))
    return seen


@contextlib.contextmanager
def _one_layer_of_each_kind(model: nn.Module, kinds: Sequence[tuple[str, ...]], times: list[int]) -> Iterator[None]:
    """While a layer that stands for n of its kind runs, `times[0]` is n."""
    with contextlib.ExitStack() as undo:
        for paths in kinds:
            layers = [model.get_submodule(path) for path in paths]
            run, repeat = _run_and_repeat(layers[0].forward, len(layers), times)
            for layer in layers:
                replace_attribute(layer, "forward", run if layer is layers[0] else repeat, undo)
        yield


def _run_and_repeat(
    original: Callable[..., Any], copies: int, times: list[int]
) -> tuple[Callable[..., Any], Callable[..., Any]]:
    """`original`, and a stand-in that returns what it returned last."""
    result: list[Any] = []

    def run(*arguments: Any, **keywords: Any) -> Any:
        times[0] = copies
        try:
            result[:] = [original(*arguments, **keywords)]
        finally:
            times[0] = 1
        return result[0]

    def repeat(*_: Any, **__: Any) -> Any:
        return result[0]

    return run, repeat


class _ArgumentNames:
    """Sorts the arguments of a callable into tensors, caches, constants and other settings."""

    def __init__(self, function: Callable[..., Any], *, binds_constants: bool) -> None:
        self._binds_constants = binds_constants
        try:
            self._signature = inspect.signature(function)
        except ValueError:  # a builtin that does not tell its parameters
            self._signature = inspect.Signature(
                [
                    inspect.Parameter("arguments", inspect.Parameter.VAR_POSITIONAL),
                    inspect.Parameter("keywords", inspect.Parameter.VAR_KEYWORD),
                ]
            )

    def observe(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> "_Observation":
        """Before the call."""
        seen = _Observation()
        for name, value, default in self._named(arguments, keywords):
            is_group = isinstance(value, tuple | list)
            parts = {f"{name}.{i}": part for i, part in enumerate(value)} if is_group else {name: value}
            if parts and all(isinstance(part, torch.Tensor) for part in parts.values()):
                seen.tensors += [observe_tensor(argument, part) for argument, part in parts.items()]
            elif value is None or _is_default(value, default):
                continue
            elif self._binds_constants and isinstance(value, Constant):
                seen.constants.append((name, value))
            elif (held := held_by_layers(value)) is not None:
                seen.caches[name] = (value, held)
            else:
                seen.settings.append((name, _describe(value)))
        return seen

    def _named(self, arguments: Sequence[Any], keywords: Mapping[str, Any]) -> Iterator[tuple[str, Any, Any]]:
        for name, value in self._signature.bind(*arguments, **keywords).arguments.items():
            parameter = self._signature.parameters[name]
            match parameter.kind:
                case inspect.Parameter.VAR_POSITIONAL:
                    yield from ((f"{name}{i}", part, parameter.empty) for i, part in enumerate(value))
                case inspect.Parameter.VAR_KEYWORD:
                    yield from ((key, part, parameter.empty) for key, part in value.items())
                case _:
                    yield name, value, parameter.default


@dataclass(slots=True)
class _Observation:
    """Of one call; what it does to a cache is known when it is over."""

    tensors: list[ObservedTensor] = field(default_factory=list)
    constants: list[tuple[str, Constant]] = field(default_factory=list)
    settings: list[tuple[str, str]] = field(default_factory=list)
    caches: dict[str, tuple[Any, list[HeldByLayer]]] = field(default_factory=dict)

    def form(self) -> CallForm:
        tensors, settings, updated = list(self.tensors), list(self.settings), None
        for name, (cache, before) in self.caches.items():
            grown = find_growth(name, cache, before)
            if grown is None or updated is not None:
                settings.append((name, _describe(cache)))
                continue
            updated, layer = grown, cache.layers[grown.layer]
            tensors += [observe_tensor(f"{name}.{part}", getattr(layer, part)) for part in ("keys", "values")]
        return CallForm(tuple(tensors), updated, tuple(self.constants), tuple(settings))


def observe_tensor(argument: str, tensor: torch.Tensor) -> ObservedTensor:
    """The stride of a dim of size 1 reaches nothing and is set to what follows from the dim within it."""
    strides = list(tensor.stride())
    for dim in reversed(range(tensor.dim())):
        if tensor.shape[dim] == 1:
            strides[dim] = strides[dim + 1] * tensor.shape[dim + 1] if dim + 1 < tensor.dim() else 1
    return ObservedTensor(
        argument=argument,
        shape=tuple(tensor.shape),
        strides=tuple(strides),
        element_type=str(tensor.dtype).removeprefix("torch."),
    )


def _is_default(value: Any, default: Any) -> bool:
    return type(value) is type(default) and isinstance(value, bool | int | float | str) and value == default


def _describe(value: Any) -> str:
    return repr(value) if isinstance(value, bool | int | float | str) else type(value).__name__


def _site_calls(of_site: Mapping[CallForm, Mapping[ModelCall, CallRate]]) -> tuple[SiteCall, ...]:
    calls = []
    for form, sources in of_site.items():
        total = sum(sources.values(), CallRate())
        calls.append(
            SiteCall(
                tensors=form.tensors,
                calls_per_hour=total.per_hour,
                calls_per_hour_by_class=total.per_hour_by_class,
                cache=form.cache,
                constants=form.constants,
                settings=form.settings,
                sources=sources,
            )
        )
    return tuple(sorted(calls, key=lambda call: -call.calls_per_hour))
