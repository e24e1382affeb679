"""A kernel repository as Hugging Face `kernels` loads it from a local folder: `build/torch-cpu/`, a Python package.

Layout and rules of `kernels` 0.17.2 (huggingface.co/docs/kernels): `metadata.json` with `license` and
`python-depends`, layers without a constructor or members of their own. The shared library is plain C, so that one
variant serves every PyTorch; the device is checked when a kernel is installed. Parts of blocks are functions only,
since no layer stands for them; kernels that pack their weights are layers only, since a function has no place to keep
what it packed.
"""

import base64
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from candidates.serving_build.build import Build
from candidates.serving_build.build_files import Sign, kernels_for_no_cpu, narrowed, source_of, unsigned
from candidates.serving_build.export_names import argument_names, class_name, free_name, module_name
from candidates.serving_build.exported import runtime_file
from candidates.serving_build.manifest import InstallationSite, KernelEntry
from candidates.serving_build.target import TRUST, Export, LeftOut
from candidates.task import InputRole, InputSpec
from traces.sites import SiteKind

VARIANT = "torch-cpu"
_HERE = InstallationSite(kind=SiteKind.MODULE, module_paths=("",))
"""The module that a build is installed in, not one below it."""
_SITES = "_kernel_sites"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Offered:
    """A name that the package defines: a layer of all kernels of a site, or a function of one kernel."""

    name: str
    folder: str
    arguments: tuple[str, ...]
    entries: tuple[KernelEntry, ...]


class HfKernels:
    def __init__(self, sign: Sign = unsigned) -> None:
        """`sign` is asked for each layer and function: their manifests are not the build's."""
        self._sign = sign

    def export(self, build: Build) -> Export:
        if left_out := kernels_for_no_cpu(build):
            return Export(files={}, carried=(), left_out=left_out, next_step="")
        layers, functions, left_out = _offer(build.manifest.kernels)
        carried = {entry.id for offered in (*layers, *functions) for entry in offered.entries}
        files = _package(build, layers, functions, self._sign) if carried else {}
        name = f"compiler_agent_{build.id[:12]}"
        if files:
            files["metadata.json"] = _metadata(name, files)
        placed = {f"build/{VARIANT}/{path}": content for path, content in files.items()}
        if placed:
            placed["README.md"] = _card(build, layers, functions).encode()
            placed |= {f"source/{path}": text for path, text in _sources(build, carried)}
        return Export(
            files=placed,
            carried=tuple(entry.id for entry in build.manifest.kernels if entry.id in carried),
            left_out=left_out,
            next_step='kernels.get_local_kernel(pathlib.Path("FOLDER"), backend="cpu")',
        )


def _offer(kernels: Sequence[KernelEntry]) -> tuple[list[_Offered], list[_Offered], tuple[LeftOut, ...]]:
    layers: list[_Offered] = []
    functions: list[_Offered] = []
    left_out: list[LeftOut] = []
    for entries in _by_site(kernels):
        first = entries[0]
        if first.site.call is not None:
            reason = "its calls bring a cache or constants, for which neither a layer nor a function has a place"
            left_out += [LeftOut(kernel_id=entry.id, op=entry.op, reason=reason) for entry in entries]
            continue
        activations = tuple(
            argument_names([each.name for each in first.inputs if each.role is not InputRole.PARAMETER])
        )
        if first.site.kind is not SiteKind.REGION:
            # `LlamaMLP.decode` and `LlamaMLP.prefill` serve one site, as one layer.
            op = first.op if len(entries) == 1 else first.op.rpartition(".")[0] or first.op
            name = free_name(class_name(op), [layer.name for layer in layers])
            folder = free_name(module_name(op), [layer.folder for layer in layers])
            layers.append(_Offered(name=name, folder=folder, arguments=activations, entries=entries))
        for entry in entries:
            if entry.prepare is None:
                name = free_name(module_name(entry.op), [function.name for function in functions])
                arguments = tuple(argument_names([each.name for each in entry.inputs]))
                functions.append(_Offered(name=name, folder=name, arguments=arguments, entries=(entry,)))
            elif first.site.kind is SiteKind.REGION:
                reason = "it packs weights and is part of a block: neither a layer nor a function can stand for it"
                left_out.append(LeftOut(kernel_id=entry.id, op=entry.op, reason=reason))
    return layers, functions, tuple(left_out)


def _by_site(kernels: Iterable[KernelEntry]) -> list[tuple[KernelEntry, ...]]:
    groups: dict[str, list[KernelEntry]] = {}
    for entry in kernels:
        activations = [spec.name for spec in entry.inputs if spec.role is not InputRole.PARAMETER]
        groups.setdefault(f"{entry.site.model_dump_json()}{activations}", []).append(entry)
    return [tuple(group) for group in groups.values()]


def _package(build: Build, layers: Sequence[_Offered], functions: Sequence[_Offered], sign: Sign) -> dict[str, bytes]:
    files = {
        "__init__.py": _init(layers, functions).encode(),
        "layers.py": _module(_LAYERS, layers, _layer).encode(),
        "functions.py": _module(_FUNCTIONS, functions, _function).encode(),
        f"{_SITES}.py": Path(runtime_file.__file__).with_name("kernel_sites.py").read_bytes(),
        "runtime_file.py": Path(runtime_file.__file__).read_bytes(),
    }
    for kind, offers, adapted in (("layers", layers, _as_layer), ("functions", functions, _as_function)):
        for offered in offers:
            within = narrowed(build, map(adapted, offered.entries), sign)
            files |= {f"builds/{kind}/{offered.folder}/{path}": content for path, content in within.items()}
    return files


def _as_layer(entry: KernelEntry) -> KernelEntry:
    return entry.model_copy(update={"site": _HERE})


_NOT_OF_ACTIVATIONS = {"attribute": None, "stored_as": None}


def _as_function(entry: KernelEntry) -> KernelEntry:
    """Parameters are arguments like any other: a function has no module to find them in."""
    inputs = tuple(
        InputSpec.model_validate(spec.model_dump() | {"role": InputRole.ACTIVATION} | _NOT_OF_ACTIVATIONS)
        if spec.role is InputRole.PARAMETER
        else spec
        for spec in entry.inputs
    )
    return entry.model_copy(update={"site": _HERE, "inputs": inputs})


def _init(layers: Sequence[_Offered], functions: Sequence[_Offered]) -> str:
    names = [function.name for function in functions]
    exported = ["counters", "layers", *(["functions"] if names else []), *(name for name in names if name not in _OWN)]
    lines = [
        '"""Kernels of a serving build of Compiler Agent."""',
        "",
        f"from . import layers{', functions' if names else ''}",
        f"from .{_SITES} import counters, require_intact",
        *(f"from .functions import {name}" for name in names if name not in _OWN),
        "",
        "require_intact()",
        "",
        f"__all__ = {exported!r}",
    ]
    return "\n".join(lines) + "\n"


_OWN = {"layers", "functions", "counters", "require_intact", "runtime_file", "builds"}
"""Names of the package itself: an op of such a name is found in `functions` alone."""


def _module(head: str, offers: Sequence[_Offered], text: Callable[[_Offered], str]) -> str:
    names = ", ".join(repr(offered.name) for offered in offers)
    return "\n\n\n".join([head.format(sites=_SITES), *map(text, offers), f"__all__ = [{names}]"]) + "\n"


_LAYERS = """\"\"\"Layers for `kernels.kernelize`; weights are those of the module that adopts one.\"\"\"

from torch import nn

from .{sites} import serve"""
_FUNCTIONS = """\"\"\"Functions of tensors; weights are arguments.\"\"\"

from .{sites} import serve_function"""


def _layer(layer: _Offered) -> str:
    arguments = "".join(f", {name}" for name in layer.arguments)
    return (
        f"class {layer.name}(nn.Module):\n"
        f"    can_torch_compile = True\n\n"
        f"    def forward(self{arguments}):\n"
        f'        return serve(self, "{layer.folder}", {layer.name}.forward)({", ".join(layer.arguments)})'
    )


def _function(function: _Offered) -> str:
    arguments = ", ".join(function.arguments)
    return f'def {function.name}({arguments}):\n    return serve_function("{function.folder}")({arguments})'


def _metadata(name: str, files: Mapping[str, bytes]) -> bytes:
    digests = {
        path: base64.b64encode(hashlib.sha256(content).digest()).decode() for path, content in sorted(files.items())
    }
    content = {
        "id": f"_{name}",
        "name": name.replace("_", "-"),
        "version": 1,
        "license": "other",
        "python-depends": [],
        "backend": {"type": "cpu"},
        "digest": {"algorithm": "sha256", "files": digests},
    }
    return json.dumps(content, indent=1).encode() + b"\n"


def _sources(build: Build, carried: Iterable[str]) -> list[tuple[str, bytes]]:
    found = []
    for entry in build.manifest.kernels:
        if entry.id in carried:
            language, text = source_of(build, entry)
            found.append((f"{entry.id}.{language}", text.encode()))
    return found


def _card(build: Build, layers: Sequence[_Offered], functions: Sequence[_Offered]) -> str:
    lines = [
        "---",
        "tags: [kernels]",
        "---",
        "",
        f"Kernels for CPUs, of the serving build {build.id} of Compiler Agent. They serve the shapes in which they won",
        f"on the device {build.manifest.device.id}; elsewhere, and for other calls, the model's own code runs.",
        "",
        TRUST,
        "",
        "| name | kind | kernels |",
        "|---|---|---|",
    ]
    for kind, offers in (("layer", layers), ("function", functions)):
        lines += [f"| `{each.name}` | {kind} | {' '.join(e.id[:12] for e in each.entries)} |" for each in offers]
    return "\n".join(lines) + "\n"
