"""Installs the kernels of a serving build in a model; all that a serving process needs beside PyTorch.

    installation = install(model, "builds/3f2a…")     # a copy of this file lies in the build
    ...
    installation.counters()                           # hits, misses and shapes of each kernel
    installation.uninstall()

Each call at an installed site is checked against the kernel's guard; a call that does not pass is served by the
original code and counted. `COMPILER_AGENT_DISABLE=1` in the environment installs nothing. Install after the weights
are in place, and copy a model before installing, never after: a copy would call kernels with the weights of the first.
"""

import ctypes
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import math
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import torch

KILL_SWITCH = "COMPILER_AGENT_DISABLE"
PLANS_KEPT = 4096
"""Distinct call shapes remembered per kernel; contexts that grow by one token a step must not fill the memory."""

_Forward = Callable[..., Any]


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


class _Plan:
    """How calls with one combination of shapes, strides and types are served, and how many there were."""

    __slots__ = ("axes", "calls", "obstacle", "outputs", "sizes")

    def __init__(self, obstacle: str | None, sizes: dict[str, int], axes: tuple[int, ...], outputs: list[_Forward]):
        self.obstacle = obstacle
        self.sizes = sizes
        self.axes = axes
        self.outputs = outputs
        self.calls = 0


class _Kernel:
    """One loaded kernel; serves every instance of its site."""

    def __init__(self, entry: dict[str, Any], folder: Path) -> None:
        library = ctypes.CDLL(str(folder / entry["library"]))
        self.id: str = entry["id"]
        self.entry = entry
        self.axes: list[str] = entry["axes"]
        self.activations: list[dict[str, Any]] = [spec for spec in entry["inputs"] if spec["role"] != "parameter"]
        self.parameters: list[dict[str, Any]] = [spec for spec in entry["inputs"] if spec["role"] == "parameter"]
        self.function = library[entry["entry"]]
        is_prepared = entry["prepare"] is not None
        pointers = len(entry["inputs"]) + len(entry["outputs"]) + is_prepared
        self.function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * len(self.axes)
        self.function.restype = None
        if is_prepared:
            self._prepared_bytes = library[f"{entry['prepare']}_bytes"]
            self._prepared_bytes.argtypes = []
            self._prepared_bytes.restype = ctypes.c_int64
            self._prepare = library[entry["prepare"]]
            self._prepare.argtypes = [ctypes.c_void_p] * (len(self.parameters) + 1)
            self._prepare.restype = None
        self.fixed_sizes: dict[str, int] = {}
        """Axes that only parameters know."""
        self.plans: dict[Any, _Plan] = {}
        self.misses: dict[str, int] = {}
        self.shapes: dict[str, int] = {}

    def prepare(self, pointers: Sequence[int]) -> torch.Tensor | None:
        """The parameters as the kernel packs them, one byte tensor; None for a kernel that reads them as they are."""
        if self.entry["prepare"] is None:
            return None
        packed = torch.empty(self._prepared_bytes(), dtype=torch.uint8)
        self._prepare(*pointers, packed.data_ptr())
        return packed

    def plan_for(self, tensors: Sequence[torch.Tensor], key: Any) -> _Plan:
        obstacle, sizes = self._inspect(tensors)
        if obstacle is not None:
            plan = _Plan(obstacle, {}, (), [])
        else:
            outputs = [_allocator(spec, sizes) for spec in self.entry["outputs"]]
            plan = _Plan(None, sizes, tuple(sizes[axis] for axis in self.axes), outputs)
        if len(self.plans) >= PLANS_KEPT:
            self.settle()
        self.plans[key] = plan
        return plan

    def _inspect(self, tensors: Sequence[torch.Tensor]) -> tuple[str | None, dict[str, int]]:
        if len(tensors) != len(self.activations):
            return "arguments", {}
        sizes = dict(self.fixed_sizes)
        for tensor, spec in zip(tensors, self.activations, strict=True):
            if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
                return "arguments", {}
            obstacle = _mismatch(tensor, spec, sizes)
            if obstacle is not None:
                return obstacle, {}
        if not any(_holds(bounds, sizes) for bounds in self.entry["ranges"]):
            return "shape not won", {}
        return None, sizes

    def count_miss(self, reason: str) -> None:
        self.misses[reason] = self.misses.get(reason, 0) + 1

    def settle(self) -> None:
        """Moves the plans' counts into `shapes` and forgets the plans."""
        for plan in list(self.plans.values()):  # another thread may be serving
            if plan.calls:
                name = ",".join(f"{axis}={size}" for axis, size in sorted(plan.sizes.items()))
                self.shapes[name] = self.shapes.get(name, 0) + plan.calls
        self.plans.clear()


def _type_of(spec: dict[str, Any]) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec["element_type"])
    return dtype


def _sizes_and_strides(spec: dict[str, Any], axes: dict[str, Any]) -> tuple[list[Any], list[Any]]:
    sizes = [axes[dim] if isinstance(dim, str) else dim for dim in spec["shape"]]
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for dim in reversed(spec["dim_order"]):
        strides[dim] = step
        step = step * sizes[dim]
    return sizes, strides


def _mismatch(tensor: torch.Tensor, spec: dict[str, Any], axes: dict[str, int]) -> str | None:
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
    if any(size > 1 and got != want for size, got, want in zip(sizes, tensor.stride(), strides, strict=True)):
        return "strides"
    return None


def _holds(bounds: Iterable[dict[str, Any]], sizes: dict[str, int]) -> bool:
    return all(bound["low"] <= math.prod(sizes[axis] for axis in bound["axes"]) <= bound["high"] for bound in bounds)


def _allocator(spec: dict[str, Any], axes: dict[str, int]) -> _Forward:
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
        self.tensors = [place[name] for place, name in self._places]
        for tensor, spec in zip(self.tensors, self._kernel.parameters, strict=True):
            obstacle = _mismatch(tensor, spec, self._kernel.fixed_sizes) if tensor.is_cpu else "device"
            if obstacle is not None:
                raise ValueError(
                    f"parameter {spec['attribute']} differs in {obstacle} from what the kernel was made for"
                )
        pointers = [tensor.data_ptr() for tensor in self.tensors]
        self.packed = self._kernel.prepare(pointers)
        self.tail = () if self.packed is None else (self.packed.data_ptr(),)
        self.requires_grad = any(tensor.requires_grad for tensor in self.tensors)
        remaining = iter(pointers)
        self.template = [
            next(remaining) if spec["role"] == "parameter" else None for spec in self._kernel.entry["inputs"]
        ]
        self.seen = [
            (place, name, tensor, pointer, None if self.packed is None or tensor.is_inference() else tensor._version)
            for (place, name), tensor, pointer in zip(self._places, self.tensors, pointers, strict=True)
        ]

    def are_fresh(self) -> bool:
        """Whether the kernel may be called; binds again first if a parameter was replaced, moved or written."""
        for place, name, tensor, pointer, version in self.seen:
            if (
                place[name] is not tensor
                or tensor.data_ptr() != pointer
                or (version is not None and tensor._version != version)
            ):
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

    def __init__(self, kernel: _Kernel, original: _Forward, module: torch.nn.Module | None) -> None:
        self.kernel = kernel
        self.original = original
        self.parameters = _Parameters(kernel, module)
        self.number = next(_serial)
        self.is_installed = True
        _sites[self.number] = self
        self.forward = self._make_forward(_argument_names(original, len(kernel.activations)))

    def _make_forward(self, names: list[str]) -> _Forward:
        """What replaces `original`. Everything it touches is a local: it runs hundreds of times a token."""
        kernel, parameters, original, number = self.kernel, self.parameters, self.original, self.number
        function, plans, plan_for, are_fresh = kernel.function, kernel.plans, kernel.plan_for, parameters.are_fresh
        positions = [place for place, spec in enumerate(kernel.entry["inputs"]) if spec["role"] != "parameter"]
        has_one_output = len(kernel.entry["outputs"]) == 1
        tensor_type, is_compiling = torch.Tensor, torch.compiler.is_compiling
        grad_enabled, autocast_enabled = torch.is_grad_enabled, torch.is_autocast_enabled
        traced_specs = [
            (_type_of(spec), [None if isinstance(dim, str) else dim for dim in spec["shape"]])
            for spec in kernel.activations
        ]
        is_traceable = all(spec["role"] != "state" for spec in kernel.entry["inputs"])
        operator = _operator()

        def passes_traced(tensors: tuple[Any, ...]) -> bool:
            if len(tensors) != len(traced_specs) or (grad_enabled() and parameters.requires_grad):
                return False
            for tensor, (dtype, sizes) in zip(tensors, traced_specs, strict=True):
                if not isinstance(tensor, tensor_type) or tensor.dtype != dtype or tensor.dim() != len(sizes):
                    return False
                if tensor.device.type != "cpu" or (grad_enabled() and tensor.requires_grad):
                    return False
                for size, fixed in zip(tensor.shape, sizes, strict=True):
                    if fixed is not None and size != fixed:
                        return False
            return True

        def forward(*arguments: Any, **keywords: Any) -> Any:
            tensors = arguments
            if keywords and len(tensors) + len(keywords) == len(names):
                late = names[len(tensors) :]
                if all(name in keywords for name in late):
                    tensors = tensors + tuple([keywords[name] for name in late])
            if is_compiling():
                if is_traceable and passes_traced(tensors):
                    outputs = operator(list(tensors), number)
                    return outputs[0] if has_one_output else tuple(outputs)
                return original(*arguments, **keywords)
            if keywords and tensors is arguments:
                kernel.count_miss("arguments")
                return original(*arguments, **keywords)
            key = tuple(
                [(t.dtype, t.shape, t.stride()) if type(t) is tensor_type and t.is_cpu else None for t in tensors]
            )
            plan = plans.get(key) or plan_for(tensors, key)
            if plan.obstacle is not None:
                kernel.count_miss(plan.obstacle)
                return original(*arguments, **keywords)
            if grad_enabled() and (parameters.requires_grad or any(t.requires_grad for t in tensors)):
                kernel.count_miss("gradient")
                return original(*arguments, **keywords)
            if autocast_enabled("cpu") or not are_fresh():
                kernel.count_miss("parameters or autocast")
                return original(*arguments, **keywords)
            pointers = parameters.template.copy()
            for position, tensor in zip(positions, tensors):  # noqa: B905 (counted by the plan; strict costs time)
                pointers[position] = tensor.data_ptr()
            outputs = [allocate() for allocate in plan.outputs]
            function(*pointers, *[output.data_ptr() for output in outputs], *parameters.tail, *plan.axes)
            plan.calls += 1
            return outputs[0] if has_one_output else tuple(outputs)

        return forward

    def run_operator(self, tensors: list[torch.Tensor]) -> list[torch.Tensor]:
        """A call from a compiled graph: outputs are fresh and laid out as the graph was told."""
        result = self.forward(*tensors) if self.is_installed else self.original(*tensors)
        outputs = [result] if isinstance(result, torch.Tensor) else list(result)
        expected = self.describe_outputs(tensors)
        inputs = {tensor.data_ptr() for tensor in tensors}
        return [
            output
            if output.stride() == blank.stride() and output.data_ptr() not in inputs and output._base is None
            else blank.copy_(output)
            for output, blank in zip(outputs, expected, strict=True)
        ]

    def describe_outputs(self, tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """Blank outputs for these inputs, real or fake, sizes possibly symbolic."""
        axes: dict[str, Any] = dict(self.kernel.fixed_sizes)
        for tensor, spec in zip(tensors, self.kernel.activations, strict=True):
            for size, dim in zip(tensor.shape, spec["shape"], strict=True):
                if isinstance(dim, str):
                    axes.setdefault(dim, size)
        blanks = []
        for spec in self.kernel.entry["outputs"]:
            sizes, strides = _sizes_and_strides(spec, axes)
            blanks.append(torch.empty_strided(sizes, strides, dtype=_type_of(spec)))
        return blanks


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


def _argument_names(original: _Forward, count: int) -> list[str]:
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
        self._kernels: dict[str, list[_Kernel]] = {}
        self._sites: list[_Site] = []
        self._undo: list[Callable[[], None]] = []

    def counters(self) -> dict[str, dict[str, Any]]:
        """By kernel id: `hits`, `misses`, `miss_reasons` {reason: calls} and `shapes` {shape: hits}."""
        counters = {}
        for kernel_id, kernels in self._kernels.items():
            shapes: dict[str, int] = {}
            reasons: dict[str, int] = {}
            for kernel in kernels:
                kernel.settle()
                for merged, counts in ((shapes, kernel.shapes), (reasons, kernel.misses)):
                    for name, count in counts.items():
                        merged[name] = merged.get(name, 0) + count
            hits, misses = sum(shapes.values()), sum(reasons.values())
            counters[kernel_id] = {"hits": hits, "misses": misses, "miss_reasons": reasons, "shapes": shapes}
        return counters

    @property
    def prepared_bytes(self) -> int:
        """Memory that repacked parameters take beside the originals."""
        packed = [site.parameters.packed for site in self._sites]
        return sum(tensor.numel() for tensor in packed if tensor is not None)

    def uninstall(self) -> None:
        """Puts the original code back; graphs compiled meanwhile call it too. Idempotent."""
        while self._undo:
            self._undo.pop()()
        for site in self._sites:
            site.is_installed = False

    def add(self, model: torch.nn.Module, entry: dict[str, Any], folder: Path) -> None:
        kernel = _Kernel(entry, folder)
        self._kernels.setdefault(kernel.id, []).append(kernel)
        site = entry["site"]
        if site["kind"] == "function":
            owner, name = _find_function(site["function"])
            self._replace(owner, name, self._stand_in(kernel, getattr(owner, name), None))
            return
        for path in site["module_paths"]:
            module = model.get_submodule(path)
            if site["kind"] == "module":
                self._replace(module, "forward", self._stand_in(kernel, module.forward, module))
            else:
                self._replace_region(kernel, site, module)

    def _stand_in(self, kernel: _Kernel, original: _Forward, module: torch.nn.Module | None) -> _Forward:
        site = _Site(kernel, original, module)
        self._sites.append(site)
        return site.forward

    def _replace_region(self, kernel: _Kernel, site: dict[str, Any], module: torch.nn.Module) -> None:
        regions = self._regions_of(module, site)
        original = regions[site["region"]]
        regions[site["region"]] = self._stand_in(kernel, original, module)

        def undo() -> None:
            regions[site["region"]] = original

        self._undo.append(undo)

    def _regions_of(self, module: torch.nn.Module, site: dict[str, Any]) -> dict[str, _Forward]:
        """The table of regions that the block's rebuilt `forward` calls; rebuilds it for the block's first region."""
        regions: dict[str, _Forward] | None = getattr(module.forward, "regions", None)
        if regions is not None:
            return regions
        regions = {name: _define(source, "region") for name, source in site["region_sources"].items()}
        rebuilt = _define(site["block_source"], "make_forward")(regions)

        def forward(*arguments: Any, **keywords: Any) -> Any:
            return rebuilt(module, *arguments, **keywords)

        forward.regions = regions  # type: ignore[attr-defined]
        self._replace(module, "forward", forward)
        return regions

    def _replace(self, owner: Any, name: str, replacement: _Forward) -> None:
        had_own = name in vars(owner)
        previous = getattr(owner, name)

        def undo() -> None:
            if had_own:
                setattr(owner, name, previous)
            else:
                delattr(owner, name)

        setattr(owner, name, replacement)
        self._undo.append(undo)


def _define(source: str, name: str) -> _Forward:
    """The function `name` of a source that came, verified, with the build."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: _Forward = namespace[name]
    return function


def _find_function(path: str) -> tuple[Any, str]:
    module_name, _, name = path.rpartition(".")
    return importlib.import_module(module_name), name


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
