"""Installs the kernels of a serving build in a model; all that a serving process needs beside PyTorch.

    installation = install(model, "builds/3f2a…")     # a copy of this file lies in the build
    ...
    installation.counters()                           # hits, misses and shapes of each kernel
    installation.uninstall()

Each call at an installed site is checked against the kernel's guard; a call that does not pass is served by the
original code and counted. `COMPILER_AGENT_DISABLE=1` in the environment installs nothing. Install after the weights
are in place, and copy a model before installing, never after: a copy would call kernels with the weights of the first.
"""

import contextlib
import ctypes
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

KILL_SWITCH = "COMPILER_AGENT_DISABLE"
PLANS_KEPT = 4096
"""Distinct call shapes remembered per kernel; contexts that grow by one token a step must not fill the memory."""

_Function = Callable[..., Any]
_Spec = dict[str, Any]


class BuildRefused(Exception):
    """A file of the build is not what its manifest says; the build's owner is at fault."""


def read_verified(folder: Path) -> dict[str, Any]:
    """The manifest, after every byte of the build was checked against it. Raises BuildRefused with the file's name."""
    path = folder / "manifest.json"
    try:
        text = path.read_text(encoding="utf-8")
        manifest: dict[str, Any] = json.loads(text)
        files: dict[str, str] = manifest["files"]
        content = {key: value for key, value in manifest.items() if key != "build_id"}
        is_intact = text == manifest_text(manifest) and manifest["build_id"] == _digest_of(content)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildRefused(f"{path} is not the manifest of a build ({error}): install the build again") from error
    if not is_intact:
        raise BuildRefused(f"{path} was changed after the build was written: install the build again")
    for name, expected in files.items():
        try:
            found = hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError as error:
            raise BuildRefused(f"{folder / name} cannot be read ({error.strerror}): install the build again") from error
        if found != expected:
            raise BuildRefused(f"{folder / name} has sha256 {found}, not {expected}: install the build again")
    return manifest


def manifest_text(manifest: dict[str, Any]) -> str:
    """The one text that a manifest may have on disk, so that a changed blank is seen too."""
    return json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _digest_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def device_obstacle(device: dict[str, Any]) -> str | None:
    """Why kernels measured on `device` must not run here; None if they may."""
    if device["kind"] != "cpu":
        return f"the build is for a {device['kind']} device"
    fields: dict[str, str] = {}
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        name, _, value = line.partition(":")
        fields.setdefault(name.strip(), value.strip())
    flags = (fields.get("flags") or fields.get("Features") or "").split()
    missing = sorted(set(device["features"]) - set(flags))
    if missing:
        return f"this processor lacks {', '.join(missing)}"
    model = fields.get("model name")
    if model is not None and model not in device["model"]:
        return f"the build was measured on {device['model']}, this is {model}"
    return None


@dataclass(slots=True, kw_only=True)
class _Plan:
    """How calls with one combination of shapes, strides and types are served, and how many there were."""

    obstacle: str | None
    sizes: dict[str, int]
    axes: tuple[int, ...] = ()
    outputs: Sequence[_Function] = ()
    calls: int = 0


class _Kernel:
    """One loaded kernel; serves every instance of its site."""

    def __init__(self, entry: dict[str, Any], folder: Path) -> None:
        self.id: str = entry["id"]
        self.entry = entry
        self.activations: list[_Spec] = [spec for spec in entry["inputs"] if spec["role"] != "parameter"]
        self.parameters: list[_Spec] = [spec for spec in entry["inputs"] if spec["role"] == "parameter"]
        library, prepare = ctypes.CDLL(str(folder / entry["library"])), entry["prepare"]
        tensors = len(entry["inputs"]) + len(entry["outputs"]) + (prepare is not None)
        self.function = _bind(library, entry["entry"], tensors, len(entry["axes"]))
        if prepare is not None:
            self._prepared_bytes = _bind(library, f"{prepare}_bytes", 0, 0, ctypes.c_int64)
            self._prepare = _bind(library, prepare, len(self.parameters) + 1, 0)
        self.fixed_sizes: dict[str, int] = {}
        """Axes that parameters show."""
        self.plans: dict[Any, _Plan] = {}
        self.misses: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()

    def prepare(self, pointers: Sequence[int]) -> torch.Tensor | None:
        """The parameters as the kernel packs them, one byte tensor; None for a kernel that reads them as they are."""
        if self.entry["prepare"] is None:
            return None
        packed = torch.empty(self._prepared_bytes(), dtype=torch.uint8)
        self._prepare(*pointers, packed.data_ptr())
        return packed

    def plan_for(self, tensors: Sequence[torch.Tensor], key: Any) -> _Plan:
        sizes = dict(self.fixed_sizes)
        plan = _Plan(obstacle=self._obstacle(tensors, sizes), sizes=sizes)
        if plan.obstacle is None:
            plan.axes = tuple(sizes[axis] for axis in self.entry["axes"])
            plan.outputs = [_allocator(spec, sizes) for spec in self.entry["outputs"]]
        if len(self.plans) >= PLANS_KEPT:
            self.settle()
        self.plans[key] = plan
        return plan

    def settle(self) -> None:
        """Moves the plans' counts into `shapes` and forgets the plans."""
        for plan in list(self.plans.values()):  # another thread may be serving
            if plan.calls:
                self.shapes[",".join(f"{axis}={size}" for axis, size in sorted(plan.sizes.items()))] += plan.calls
        self.plans.clear()

    def _obstacle(self, tensors: Sequence[torch.Tensor], sizes: dict[str, int]) -> str | None:
        """Why the kernel cannot serve `tensors`; fills `sizes` with their axes."""
        if len(tensors) != len(self.activations):
            return "arguments"
        for tensor, spec in zip(tensors, self.activations, strict=True):
            if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
                return "arguments"
            if (difference := _difference(tensor, spec, sizes)) is not None:
                return difference
        return None if any(_holds(bounds, sizes) for bounds in self.entry["ranges"]) else "shape not won"


def _bind(library: ctypes.CDLL, name: str, pointers: int, sizes: int, result: Any = None) -> Any:
    function = library[name]
    function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * sizes
    function.restype = result
    return function


def _type_of(spec: _Spec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec["element_type"])
    return dtype


def _sizes_and_strides(spec: _Spec, axes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    sizes = [axes[dim] if isinstance(dim, str) else dim for dim in spec["shape"]]
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for dim in reversed(spec["dim_order"]):
        strides[dim] = step
        step = step * sizes[dim]
    return sizes, strides


def _difference(tensor: torch.Tensor, spec: _Spec, axes: dict[str, int]) -> str | None:
    """In what `tensor` differs from `spec`; adds the axis sizes that it shows to `axes`."""
    if tensor.dtype is not _type_of(spec):
        return "type"
    if tensor.dim() != len(spec["shape"]):
        return "shape"
    for size, dim in zip(tensor.shape, spec["shape"], strict=True):
        if size == 0 or size != (axes.setdefault(dim, size) if isinstance(dim, str) else dim):
            return "shape"
    sizes, strides = _sizes_and_strides(spec, axes)
    # The stride of a dim of size 1 is never used, and PyTorch leaves any number there.
    is_laid_out = all(size == 1 or got == want for size, got, want in zip(sizes, tensor.stride(), strides, strict=True))
    return None if is_laid_out else "strides"


def _holds(bounds: Iterable[dict[str, Any]], sizes: dict[str, int]) -> bool:
    return all(bound["low"] <= math.prod(sizes[axis] for axis in bound["axes"]) <= bound["high"] for bound in bounds)


def _allocator(spec: _Spec, axes: dict[str, int]) -> _Function:
    sizes, strides = _sizes_and_strides(spec, axes)
    dtype = _type_of(spec)
    if list(spec["dim_order"]) == list(range(len(sizes))):
        return lambda: torch.empty(sizes, dtype=dtype)
    return lambda: torch.empty_strided(sizes, strides, dtype=dtype)


class _Parameters:
    """The parameters of one instance: their addresses, and what the kernel packed them into."""

    def __init__(self, kernel: _Kernel, module: torch.nn.Module | None) -> None:
        self._kernel = kernel
        self._places: list[tuple[dict[str, Any], str]] = []
        for spec in kernel.parameters:
            if module is None or spec["attribute"] is None:
                raise ValueError(f"parameter {spec['name']} has no place in a module")
            owner_path, _, name = spec["attribute"].rpartition(".")
            owner = module.get_submodule(owner_path)
            self._places.append((owner._parameters if name in owner._parameters else owner._buffers, name))
        self.bind()

    def bind(self) -> None:
        """Takes the parameters as they are now. Raises ValueError for one that the kernel does not fit."""
        tensors = [place[name] for place, name in self._places]
        for tensor, spec in zip(tensors, self._kernel.parameters, strict=True):
            difference = _difference(tensor, spec, self._kernel.fixed_sizes) if tensor.is_cpu else "device"
            if difference is not None:
                raise ValueError(f"parameter {spec['attribute']} differs in {difference} from what the kernel reads")
        pointers = [tensor.data_ptr() for tensor in tensors]
        self.packed = self._kernel.prepare(pointers)
        self.tail = () if self.packed is None else (self.packed.data_ptr(),)
        self.requires_grad = any(tensor.requires_grad for tensor in tensors)
        remaining = iter(pointers)
        self.template = [next(remaining) if s["role"] == "parameter" else None for s in self._kernel.entry["inputs"]]
        # Only what was packed goes stale when a parameter is written in place; inference tensors do not tell.
        versions = [None if self.packed is None or tensor.is_inference() else tensor._version for tensor in tensors]
        places, names = zip(*self._places, strict=True) if self._places else ((), ())
        self._seen = list(zip(places, names, tensors, pointers, versions, strict=True))

    def are_fresh(self) -> bool:
        """Whether the kernel may be called; binds again first if a parameter was replaced, moved or written."""
        for place, name, tensor, pointer, version in self._seen:
            is_same = place[name] is tensor and tensor.data_ptr() == pointer
            if not is_same or (version is not None and tensor._version != version):
                try:
                    self.bind()
                except (ValueError, KeyError, AttributeError):
                    return False
                return True
        return True


_serial = itertools.count()
_sites: dict[int, "_Site"] = {}
"""Sites by the number that compiled graphs hold; kept after `uninstall`, since such a graph may still run."""


class _Site:
    """One place in a model where a kernel stands in for `original`."""

    def __init__(self, kernel: _Kernel, original: _Function, module: torch.nn.Module | None) -> None:
        self.kernel = kernel
        self.original = original
        self.parameters = _Parameters(kernel, module)
        self.number = next(_serial)
        self.is_installed = True
        _sites[self.number] = self
        self.forward = self._make_forward(_argument_names(original, len(kernel.activations)))

    def _make_forward(self, names: list[str]) -> _Function:
        """What replaces `original`. Everything it touches is a local: it runs hundreds of times a token."""
        kernel, parameters, original, number = self.kernel, self.parameters, self.original, self.number
        function, plans, plan_for, are_fresh = kernel.function, kernel.plans, kernel.plan_for, parameters.are_fresh
        positions = [place for place, spec in enumerate(kernel.entry["inputs"]) if spec["role"] != "parameter"]
        has_one_output = len(kernel.entry["outputs"]) == 1
        tensor_type, is_compiling = torch.Tensor, torch.compiler.is_compiling
        grad_enabled, autocast_enabled = torch.is_grad_enabled, torch.is_autocast_enabled
        can_trace, operator = self._make_trace_guard(), _operator()

        def forward(*arguments: Any, **keywords: Any) -> Any:
            tensors = arguments
            if keywords and keywords.keys() == set(names[len(arguments) :]):
                tensors = arguments + tuple([keywords[name] for name in names[len(arguments) :]])
                keywords = {}
            if is_compiling():
                if keywords or not can_trace(tensors):
                    return original(*arguments, **keywords)
                outputs = operator(list(tensors), number)
                return outputs[0] if has_one_output else tuple(outputs)
            key = tuple(
                [(t.dtype, t.shape, t.stride()) if type(t) is tensor_type and t.is_cpu else None for t in tensors]
            )
            plan = plans.get(key) or plan_for(tensors, key)
            miss = plan.obstacle
            if keywords:
                miss = "arguments"
            elif miss is not None:
                pass
            elif grad_enabled() and (parameters.requires_grad or any(t.requires_grad for t in tensors)):
                miss = "gradient"
            elif autocast_enabled("cpu"):
                miss = "autocast"
            elif not are_fresh():
                miss = "parameters"
            if miss is not None:
                kernel.misses[miss] += 1
                return original(*tensors, **keywords)
            pointers = parameters.template.copy()
            for position, tensor in zip(positions, tensors):  # noqa: B905 (counted by the plan; strict costs time)
                pointers[position] = tensor.data_ptr()
            outputs = [allocate() for allocate in plan.outputs]
            function(*pointers, *[output.data_ptr() for output in outputs], *parameters.tail, *plan.axes)
            plan.calls += 1
            return outputs[0] if has_one_output else tuple(outputs)

        return forward

    def _make_trace_guard(self) -> Callable[[tuple[Any, ...]], bool]:
        """What torch.compile can decide once for all shapes; the rest is decided at each call, in the op."""
        parameters = self.parameters
        is_stateless = all(spec["role"] != "state" for spec in self.kernel.activations)
        specs = [(_type_of(spec), spec["shape"]) for spec in self.kernel.activations]

        def can_trace(tensors: tuple[Any, ...]) -> bool:
            if not is_stateless or len(tensors) != len(specs) or (torch.is_grad_enabled() and parameters.requires_grad):
                return False
            for tensor, (dtype, sizes) in zip(tensors, specs, strict=True):
                if not isinstance(tensor, torch.Tensor) or tensor.dtype != dtype or tensor.device.type != "cpu":
                    return False
                if tensor.dim() != len(sizes) or (torch.is_grad_enabled() and tensor.requires_grad):
                    return False
                if any(not isinstance(dim, str) and size != dim for size, dim in zip(tensor.shape, sizes, strict=True)):
                    return False
            return True

        return can_trace

    def run_operator(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """A call from a compiled graph: outputs are fresh and laid out as the graph was told."""
        result = self.forward(*tensors) if self.is_installed else self.original(*tensors)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        inputs = {tensor.data_ptr() for tensor in tensors}
        return [
            blank.copy_(output)
            if output.stride() != blank.stride() or output.data_ptr() in inputs or output._is_view()
            else output
            for output, blank in zip(outputs, self.describe_outputs(tensors), strict=True)
        ]

    def describe_outputs(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Blank outputs for these inputs, real or fake, sizes possibly symbolic."""
        axes: dict[str, Any] = dict(self.kernel.fixed_sizes)
        for tensor, spec in zip(tensors, self.kernel.activations, strict=True):
            axes |= {dim: n for n, dim in zip(tensor.shape, spec["shape"], strict=True) if isinstance(dim, str)}
        specs = self.kernel.entry["outputs"]
        return [torch.empty_strided(*_sizes_and_strides(spec, axes), dtype=_type_of(spec)) for spec in specs]


@functools.cache
def _operator() -> Any:
    """`run(inputs, site) -> outputs`, the one op that a compiled graph sees of this runtime."""
    # A process may load the runtimes of two builds: each has an op of its own, named alike in every process.
    name = next(name for name in (f"run{n}" for n in itertools.count()) if not hasattr(torch.ops.compiler_agent, name))
    library = torch.library.Library("compiler_agent", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(f"{name}(Tensor[] inputs, int site) -> Tensor[]")  # type: ignore[no-untyped-call]
    library.impl(name, lambda inputs, site: _sites[site].run_operator(inputs), "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(
        f"compiler_agent::{name}", lambda inputs, site: _sites[site].describe_outputs(inputs), lib=library
    )
    _libraries.append(library)
    return getattr(torch.ops.compiler_agent, name).default


_libraries: list[torch.library.Library] = []
"""An op lives as long as its library object."""


def _argument_names(original: _Function, count: int) -> list[str]:
    """Names under which the first `count` arguments may be given; shorter than `count` where they have none."""
    try:
        parameters = inspect.signature(original).parameters.values()
    except ValueError:
        return []  # some functions written in C have no signature
    return [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD][:count]


class Installation:
    """The kernels of one build in one model."""

    def __init__(self, build_id: str) -> None:
        self.build_id = build_id
        self.obstacle: str | None = None
        """Why the build as a whole was not installed: another device, or the kill switch."""
        self.failures: dict[str, str] = {}
        """Kernels that were not installed everywhere, by id, with the cause; the original code serves there."""
        self._kernels: list[_Kernel] = []
        self._sites: list[_Site] = []
        self._undo = contextlib.ExitStack()

    def counters(self) -> dict[str, dict[str, Any]]:
        """By kernel id: `hits`, `misses`, `miss_reasons` {reason: calls} and `shapes` {shape: hits}."""
        shapes: dict[str, Counter[str]] = {}
        misses: dict[str, Counter[str]] = {}
        for kernel in self._kernels:
            kernel.settle()
            shapes[kernel.id] = shapes.get(kernel.id, Counter()) + kernel.shapes
            misses[kernel.id] = misses.get(kernel.id, Counter()) + kernel.misses
        return {
            name: {
                "hits": shapes[name].total(),
                "misses": misses[name].total(),
                "miss_reasons": dict(misses[name]),
                "shapes": dict(shapes[name]),
            }
            for name in shapes
        }

    @property
    def prepared_bytes(self) -> int:
        """Memory that repacked parameters take beside the originals."""
        packed = [site.parameters.packed for site in self._sites]
        return sum(tensor.numel() for tensor in packed if tensor is not None)

    def uninstall(self) -> None:
        """Puts the original code back; graphs compiled meanwhile call it too. Idempotent."""
        self._undo.close()
        for site in self._sites:
            site.is_installed = False

    def add(self, model: torch.nn.Module, entry: dict[str, Any], folder: Path) -> None:
        kernel = _Kernel(entry, folder)
        self._kernels.append(kernel)
        site = entry["site"]
        if site["kind"] == "function":
            module_name, _, name = site["function"].rpartition(".")
            owner = importlib.import_module(module_name)
            self._replace(owner, name, self._stand_in(kernel, getattr(owner, name), None))
            return
        for path in site["module_paths"]:
            module = model.get_submodule(path)
            if site["kind"] == "module":
                self._replace(module, "forward", self._stand_in(kernel, module.forward, module))
            else:
                self._replace_region(kernel, site, module)

    def _stand_in(self, kernel: _Kernel, original: _Function, module: torch.nn.Module | None) -> _Function:
        site = _Site(kernel, original, module)
        self._sites.append(site)
        return site.forward

    def _replace_region(self, kernel: _Kernel, site: dict[str, Any], module: torch.nn.Module) -> None:
        regions = self._regions_of(module, site)
        original = regions[site["region"]]
        regions[site["region"]] = self._stand_in(kernel, original, module)
        self._undo.callback(regions.__setitem__, site["region"], original)

    def _regions_of(self, module: torch.nn.Module, site: dict[str, Any]) -> dict[str, _Function]:
        """The table of regions that the block's rebuilt `forward` calls; rebuilds it for the block's first region."""
        regions: dict[str, _Function] | None = getattr(module.forward, "regions", None)
        if regions is not None:
            return regions
        regions = {name: _define(source, "region") for name, source in site["region_sources"].items()}
        rebuilt = _define(site["block_source"], "make_forward")(regions)

        def forward(*arguments: Any, **keywords: Any) -> Any:
            return rebuilt(module, *arguments, **keywords)

        forward.regions = regions  # type: ignore[attr-defined]
        self._replace(module, "forward", forward)
        return regions

    def _replace(self, owner: Any, name: str, replacement: _Function) -> None:
        if name in vars(owner):
            self._undo.callback(setattr, owner, name, getattr(owner, name))
        else:
            self._undo.callback(delattr, owner, name)
        setattr(owner, name, replacement)


def _define(source: str, name: str) -> _Function:
    """The function `name` of a source that came, verified, with the build."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: _Function = namespace[name]
    return function


def install(model: torch.nn.Module, build_folder: str | Path) -> Installation:
    """Puts the build's kernels at their sites in `model`.

    Raises BuildRefused, before anything is loaded, when a file was changed. On another device, with the kill switch
    on, or for a kernel that cannot be loaded or does not fit, the model keeps its own code: see `obstacle` and
    `failures`.
    """
    folder = Path(build_folder)
    manifest = read_verified(folder)
    installation = Installation(manifest["build_id"])
    if os.environ.get(KILL_SWITCH, "0") not in ("", "0"):
        installation.obstacle = f"{KILL_SWITCH} is set"
    else:
        installation.obstacle = device_obstacle(manifest["device"])
    if installation.obstacle is not None:
        return installation
    # A whole module that falls back must fall back to its block with regions served, so regions come first.
    for entry in sorted(manifest["kernels"], key=lambda entry: entry["site"]["kind"] != "region"):
        try:
            installation.add(model, entry, folder)
        except (OSError, AttributeError, ValueError, ImportError, KeyError) as error:
            installation.failures[entry["id"]] = f"{entry['op']}: {error}"
    return installation
