"""Kernels behind the layers and functions of this package, each a serving build of its own beside this file.

A layer takes its weights from the module that adopts it, at its first call. Every call is checked against the kernel's
guard; one that does not pass goes to the adopting module's own code, or where there is none to the op's definition in
PyTorch. `COMPILER_AGENT_DISABLE=1` in the environment serves no kernel.
"""

import itertools
import json
import logging
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from . import runtime_file

_BUILDS = Path(__file__).parent / "builds"
_Function = Callable[..., Any]


class _Slots:
    """Stand-ins by the name of an attribute, which is what a compiled graph is held to."""


_slots = _Slots()
_serial = itertools.count()
_slot_of_module: "weakref.WeakKeyDictionary[torch.nn.Module, str]" = weakref.WeakKeyDictionary()
_slot_of_function: dict[str, str] = {}
_installations: list[tuple[str, Any]] = []
_refusals: list[tuple[str, str]] = []
_logger = logging.getLogger("compiler_agent")


def serve(module: torch.nn.Module, name: str, forward: _Function) -> _Function:
    """The function that serves calls of `module` by the kernels `name`; `forward` is the layer's own."""
    if torch.compiler.is_compiling():
        # The identity is asked for so that a graph compiled for one module never serves another.
        stand_in: _Function = getattr(_slots, _constant_module_slot(module, name, forward, id(module)))
        return stand_in
    return getattr(_slots, _module_slot(module, name, forward, 0))  # type: ignore[no-any-return]


def serve_function(name: str) -> _Function:
    """The function that serves calls by the kernel `name`, parameters being arguments like any other."""
    if torch.compiler.is_compiling():
        stand_in: _Function = getattr(_slots, _constant_function_slot(name))
        return stand_in
    return getattr(_slots, _function_slot(name))  # type: ignore[no-any-return]


def require_intact() -> None:
    """Raises FileRefused for a file of a kernel that was changed."""
    for manifest in sorted(_BUILDS.glob("*/*/manifest.json")):
        runtime_file.require_intact(manifest.parent)


def counters() -> dict[str, dict[str, Any]]:
    """By layer or function, summed over the modules that adopted it: `hits`, `misses`, `miss_reasons`, `obstacles`."""
    found: dict[str, dict[str, Any]] = {}
    for name, installation in _installations:
        entry = found.setdefault(name, {"hits": 0, "misses": 0, "miss_reasons": {}, "obstacles": []})
        for counted in installation.counters().values():
            entry["hits"] += counted["hits"]
            entry["misses"] += counted["misses"]
            for reason, calls in counted["miss_reasons"].items():
                entry["miss_reasons"][reason] = entry["miss_reasons"].get(reason, 0) + calls
        _note(entry["obstacles"], installation.obstacle, *installation.failures.values())
    for name, refusal in _refusals:
        entry = found.setdefault(name, {"hits": 0, "misses": 0, "miss_reasons": {}, "obstacles": []})
        _note(entry["obstacles"], refusal)
    return found


def _note(obstacles: list[str], *further: str | None) -> None:
    obstacles += [each for each in dict.fromkeys(further) if each is not None and each not in obstacles]


def _module_slot(module: torch.nn.Module, name: str, forward: _Function, _identity: int) -> str:
    slot = _slot_of_module.get(module)
    if slot is None:
        slot = _new_slot(name, _BUILDS / "layers" / name, _original_of(module, name, forward), module)
        _slot_of_module[module] = slot
    return slot


def _function_slot(name: str) -> str:
    if name not in _slot_of_function:
        folder = _BUILDS / "functions" / name
        _slot_of_function[name] = _new_slot(name, folder, _reference(folder), torch.nn.Module())
    return _slot_of_function[name]


_constant_module_slot = torch.compiler.assume_constant_result(_module_slot)  # type: ignore[no-untyped-call]
_constant_function_slot = torch.compiler.assume_constant_result(_function_slot)  # type: ignore[no-untyped-call]


def _new_slot(name: str, folder: Path, original: _Function, module: torch.nn.Module) -> str:
    """Installs a build in a stand-in of `module` that shares its weights, so that the module itself stays as it is."""
    holder = torch.nn.Module()
    for part in ("_parameters", "_buffers", "_modules"):
        holder.__dict__[part] = module.__dict__[part]
    holder.forward = original
    try:
        _installations.append((name, runtime_file.load_runtime(folder).install(holder, folder)))
    except Exception as error:  # a model must serve, whatever is wrong with a build
        _refusals.append((name, str(error)))
        _logger.exception("no kernel serves %s", name)
    slot = f"slot{next(_serial)}"
    setattr(_slots, slot, holder.forward)
    return slot


def _original_of(module: torch.nn.Module, name: str, forward: _Function) -> _Function:
    """The adopting class's own code; the op's definition for a module that is the layer itself."""
    own = type(module).forward
    weak = weakref.ref(module)
    if own is not forward:

        def original(*arguments: Any, **keywords: Any) -> Any:
            return own(weak(), *arguments, **keywords)

        return original
    folder = _BUILDS / "layers" / name
    reference = _reference(folder)
    places = [spec["attribute"] if spec["role"] == "parameter" else None for spec in _first_kernel(folder)["inputs"]]

    def defined(*arguments: Any) -> Any:
        remaining = iter(arguments)
        adopted = weak()
        return reference(*[next(remaining) if place is None else _attribute(adopted, place) for place in places])

    return defined


def _attribute(module: Any, place: str) -> torch.Tensor:
    for part in place.split("."):
        module = getattr(module, part)
    found: torch.Tensor = module
    return found


def _reference(folder: Path) -> _Function:
    """The op's definition, of a file that is verified when the package is imported."""
    task = folder / "tasks" / f"{_first_kernel(folder)['task_id']}.json"
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(json.loads(task.read_text(encoding="utf-8"))["reference"], str(task), "exec"), namespace)
    reference: _Function = namespace["reference"]
    return reference


def _first_kernel(folder: Path) -> dict[str, Any]:
    kernel: dict[str, Any] = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))["kernels"][0]
    return kernel
