"""Installs the kernels of a serving build in a model; all that a serving process needs beside PyTorch.

    installation = install(model, "builds/current", trusted_keys=["3f2a…"])     # a copy of this file lies in the build
    ...
    installation.counters()                           # hits, misses, shapes, comparisons of each kernel
    installation.uninstall()

Each call at an installed site is checked against the kernel's guard; a call that does not pass is served by the
original code and counted. Install after the weights are in place, and copy a model before installing, never after: a
copy would call kernels with the weights of the first. Signed builds need the package `cryptography`.

One file on purpose: it is copied, signed and read as a whole. In order: what is loaded (`read_verified`), a kernel and
its counts, the parameters of one place, the memory that caches grow into, the call (`_FORWARD`), the place with shadow
mode and the op of compiled graphs, `Installation`, `install`.

A module that updates a key/value cache is served in place: the layer of the cache then holds views of a larger buffer,
whose free end the next call fills. Only the view that was made last is extended there; a copy of a cache that went on,
one that was cropped or reordered, and one that the original code has extended are moved to a buffer of their own. So
caches behave as they do without kernels, but for one thing: whoever writes into the tensors of a cache by hand writes
into those of its shallow copies too.
"""

import contextlib
import copy
import ctypes
import fcntl
import functools
import hashlib
import importlib
import inspect
import itertools
import json
import logging
import math
import os
import random
import re
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

KILL_SWITCH = "COMPILER_AGENT_DISABLE"
"""Environment: anything but empty or 0, and nothing is read or installed."""
TRUSTED_KEYS = "COMPILER_AGENT_TRUSTED_KEYS"
"""Environment: public keys, separated by commas or blanks; a build must then be signed by one of them."""
ALLOW_UNSIGNED = "COMPILER_AGENT_ALLOW_UNSIGNED"
"""Environment: 1 where no key is trusted and builds are installed all the same."""
SHADOW_ONE_IN = "COMPILER_AGENT_SHADOW_ONE_IN"
"""Environment: one served call in so many is compared with the original; 0 for none."""
MANIFEST, SIGNATURE, SCHEMA_VERSIONS = "manifest.json", "manifest.ed25519", (2, 3)
FAULTS_ALLOWED, FAULT_SHARE_ALLOWED = 2, 0.01
"""A kernel is switched off by disagreements and failed comparisons beyond both: so many, and of those compared."""
RESERVED_STEP = 64
"""Tokens."""
PLANS_KEPT = 4096
"""Distinct call shapes remembered per kernel; contexts that grow by one token a step must not fill the memory."""

_Function = Callable[..., Any]
_Spec = dict[str, Any]
_log = logging.getLogger("compiler_agent.serving")


class BuildRefused(Exception):
    """A file of the build is not what its manifest says, or not of who is trusted; the message names the file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBuild:
    manifest: dict[str, Any]
    contents: dict[str, bytes]
    """Of every file that the manifest names, the bytes that were checked: what is on the disk by now does not count."""


def read_verified(folder: Path, trusted_keys: Collection[str], *, allow_unsigned: bool = False) -> VerifiedBuild:
    """Every byte of the build, checked against its manifest, and that against its signature.

    With no trusted key an unsigned build is refused unless `allow_unsigned`. `folder` itself may be a link, nothing in
    it. Raises BuildRefused.
    """
    path = folder / MANIFEST
    text = _read(path)
    _check_signature(folder / SIGNATURE, text, trusted_keys, allow_unsigned)
    try:
        manifest: dict[str, Any] = json.loads(text)
        files: dict[str, str] = manifest["files"]
        content = {key: value for key, value in manifest.items() if key != "build_id"}
        version = manifest["schema_version"]
        is_intact = text == manifest_text(manifest).encode() and manifest["build_id"] == _digest_of(content)
        libraries = {entry["library"] for entry in manifest["kernels"]}
        unsafe = [name for name in files if not re.fullmatch(r"([\w-][\w.-]*/)*[\w-][\w.-]*", name, re.ASCII)]
        is_closed = libraries <= files.keys() and files.keys().isdisjoint((MANIFEST, SIGNATURE))
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BuildRefused(f"{path} is not the manifest of a build ({error}): install the build again") from error
    if not is_intact:
        raise BuildRefused(f"{path} was changed after the build was written: install the build again")
    if version not in SCHEMA_VERSIONS:
        raise BuildRefused(
            f"{path} has schema version {version}, this runtime reads {SCHEMA_VERSIONS}: take both of one release"
        )
    if unsafe or not is_closed:
        raise BuildRefused(f"{path} names files that no build may have: {unsafe or sorted(libraries | files.keys())}")
    found = set(_files_of(folder)) - {MANIFEST, SIGNATURE}
    for name in sorted(found ^ files.keys()):
        what = "is not of the build: remove it" if name in found else "is missing: install the build again"
        raise BuildRefused(f"{folder / name} {what}")
    contents = {name: _read(folder / name) for name in files}
    for name, expected in files.items():
        if (digest := hashlib.sha256(contents[name]).hexdigest()) != expected:
            raise BuildRefused(f"{folder / name} has sha256 {digest}, not {expected}: install the build again")
    return VerifiedBuild(manifest=manifest, contents=contents)


def as_keys(given: str | Iterable[str]) -> tuple[str, ...]:
    """Public keys, of a text as the environment has it or one by one. Raises ValueError for what is none."""
    keys = tuple(given.replace(",", " ").split() if isinstance(given, str) else given)
    for key in keys:
        if not re.fullmatch("[0-9a-f]{64}", key):
            raise ValueError(f"{key!r} is no public key of 64 digits, as `compiler-agent keys show` prints it")
    return keys


def manifest_text(manifest: dict[str, Any]) -> str:
    """The one text that a manifest may have on disk, so that a changed blank is seen too."""
    return json.dumps(manifest, sort_keys=True, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def _digest_of(content: Any) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def _read(path: Path) -> bytes:
    try:
        # Neither follows a link nor waits for the other end of a pipe.
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | os.O_NOFOLLOW | os.O_NONBLOCK)) as file:
            return file.read()
    except OSError as error:
        raise BuildRefused(f"{path} cannot be read ({error.strerror}): install the build again") from error


def _files_of(folder: Path) -> Iterator[str]:
    for parent, folders, names in os.walk(folder):
        for name in (*folders, *names):
            path = Path(parent, name)
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise BuildRefused(f"{path} is a link or no plain file: install the build again")
        yield from (str(Path(parent, name).relative_to(folder)) for name in names)


def _check_signature(path: Path, signed: bytes, trusted_keys: Collection[str], allow_unsigned: bool) -> None:
    if not trusted_keys:
        if allow_unsigned:
            return
        raise BuildRefused(
            f"{path} cannot be checked, as no key is trusted: set {TRUSTED_KEYS} to what `compiler-agent keys show` "
            f"prints where builds are made (`keys new` makes a key), or {ALLOW_UNSIGNED}=1 to do without"
        )
    if not path.exists():
        raise BuildRefused(
            f"{path} is missing, the build is not signed: `compiler-agent builds sign` where it was made"
        )
    content = _read(path)
    if not re.fullmatch(rb"(ed25519 [0-9a-f]{64} [0-9a-f]{128}\n)+", content):
        raise BuildRefused(f"{path} holds no signatures: install the build again")
    signatures = [line.split()[1:] for line in content.decode().splitlines()]
    by_trusted = [(key, signature) for key, signature in signatures if key in trusted_keys]
    if not by_trusted:
        signers = ", ".join(key[:16] for key, _ in signatures)
        raise BuildRefused(f"{path} is by {signers}, which is not trusted here: see {TRUSTED_KEYS}")
    try:
        from cryptography.exceptions import InvalidSignature
        from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    except ImportError as error:
        raise BuildRefused(f"{path} cannot be checked without cryptography: pip install cryptography") from error
    for key, signature in by_trusted:
        try:
            Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(signature), signed)
        except (InvalidSignature, ValueError) as error:
            raise BuildRefused(f"{path} does not fit {MANIFEST}: one of them was changed") from error


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
    """Each makes one output, given the activation that is most like it."""
    calls: int = 0


class _Kernel:
    """One kernel, which serves every instance of its site, and what is counted of it."""

    NOT_WON = "shape not won"

    def __init__(self, entry: dict[str, Any]) -> None:
        self.id: str = entry["id"]
        self.entry = entry
        self.activations: list[_Spec] = [spec for spec in entry["inputs"] if spec["role"] != "parameter"]
        self.parameters: list[_Spec] = [spec for spec in entry["inputs"] if spec["role"] == "parameter"]
        self.models = [_model_of(spec, self.activations) for spec in entry["outputs"]]
        """For each output, the place of an activation with its shape, type and layout; None where none has them."""
        self.fixed_sizes: dict[str, int] = {}
        """Axes that parameters show."""
        self.call: dict[str, Any] | None = entry["site"].get("call")
        """How calls bring the tensors; None: they are the leading arguments."""
        self.cache: dict[str, Any] | None = None if self.call is None else self.call["cache"]
        self.reserved = None if self.cache is None else self.activations[-1]["allocated"][self.cache["grows_along"]]
        """The axis of what is allocated for keys and values."""
        self.plans: dict[Any, _Plan] = {}
        self.misses: Counter[str] = Counter()
        self.shapes: Counter[str] = Counter()
        self.missed_shapes: Counter[str] = Counter()
        self.shadow: Counter[str] = Counter(agreed=0, disagreed=0, failed=0)
        self.errors = 0
        self.switched_off: str | None = None
        """Why the kernel serves no longer; only a fresh installation puts it on again."""
        self._lock = threading.RLock()

    def load(self, artifact: bytes) -> None:
        entry, library = self.entry, _library(artifact)
        has_prepare = entry["prepare"] is not None
        tensors = len(entry["inputs"]) + len(entry["outputs"]) + has_prepare
        self.function = _bind(library, entry["entry"], tensors, len(entry["axes"]))
        if has_prepare:
            self._prepared_bytes = _bind(library, f"{entry['prepare']}_bytes", 0, 0, ctypes.c_int64)
            self._prepare = _bind(library, entry["prepare"], len(self.parameters) + 1, 0)
        self.make_forward = _define(_forward_source(self), "make_forward")

    def prepare(self, pointers: Sequence[int]) -> torch.Tensor | None:
        """The parameters as the kernel packs them, one byte tensor; None for a kernel that reads them as they are."""
        if self.entry["prepare"] is None:
            return None
        packed = torch.empty(self._prepared_bytes(), dtype=torch.uint8)
        self._prepare(*pointers, packed.data_ptr())
        return packed

    def plan_for(self, tensors: Sequence[torch.Tensor], key: Any) -> _Plan:
        sizes = dict(self.fixed_sizes)
        with self._lock:  # a plan made while another thread switches the kernel off must not outlive that
            obstacle = "switched off" if self.switched_off is not None else self._obstacle(tensors, sizes)
            plan = _Plan(obstacle=obstacle, sizes=sizes)
            if obstacle is None:
                plan.axes = tuple(sizes[axis] for axis in self.entry["axes"] if axis != self.reserved)
                plan.outputs = [
                    _allocator(spec, sizes, None if model is None else tensors[model])
                    for spec, model in zip(self.entry["outputs"], self.models, strict=True)
                ]
            if len(self.plans) >= PLANS_KEPT:
                self._settle()
            self.plans[key] = plan
        return plan

    def switch_off(self, reason: str) -> None:
        with self._lock:
            if self.switched_off is None:
                self.switched_off = reason
                _log.warning("kernel %s for %s is switched off: %s", self.id[:12], self.entry["op"], reason)
            self._settle()

    def fail(self, error: Exception) -> None:
        self.errors += 1
        self.switch_off(f"it raised {type(error).__name__}: {error}")

    def note_comparison(self, outcome: str, detail: str) -> None:
        """Counts it, and switches the kernel off when too many of all did not agree, or one was not finite."""
        self.shadow[outcome] += 1
        faults = self.shadow["disagreed"] + self.shadow["failed"]
        if detail == "not finite":
            self.switch_off("it is not finite where the original is")
        elif faults > FAULTS_ALLOWED and faults > FAULT_SHARE_ALLOWED * self.shadow.total():
            self.switch_off(f"{faults} of {self.shadow.total()} comparisons failed, the last by its {detail}")

    def counts(self) -> tuple[Counter[str], Counter[str], Counter[str]]:
        """Hits by shape, misses by reason, and by shape those whose shape was not won."""
        with self._lock:
            return self.shapes + self._calls_of_plans(None), +self.misses, self._missed()

    def _settle(self) -> None:
        self.shapes += self._calls_of_plans(None)
        self.missed_shapes = self._missed()
        self.plans.clear()

    def _missed(self) -> Counter[str]:
        return self.missed_shapes + self._calls_of_plans(self.NOT_WON)

    def _calls_of_plans(self, obstacle: str | None) -> Counter[str]:
        calls: Counter[str] = Counter()
        for plan in list(self.plans.values()):
            if plan.obstacle is obstacle:
                calls[",".join(f"{axis}={size}" for axis, size in sorted(plan.sizes.items()))] += plan.calls
        return calls

    def _obstacle(self, tensors: Sequence[torch.Tensor], sizes: dict[str, int]) -> str | None:
        """Why the kernel cannot serve `tensors`; fills `sizes` with their axes."""
        for tensor, spec in zip(tensors, self.activations, strict=True):
            if type(tensor) is not torch.Tensor or not tensor.is_cpu or tensor.layout is not torch.strided:
                return "arguments"
            if self.cache is not None and spec["role"] == "state":
                grown = list(tensor.shape)
                grown[self.cache["grows_along"]] += self.cache["grows_by"] if tensor.numel() else 0
                difference = _shape_difference(tensor.dtype, grown, spec, sizes)
            else:
                difference = _difference(tensor, spec, sizes)
            if difference is not None:
                return difference
        if self.cache is not None and self.reserved is not None:
            sizes[self.reserved] = reserved_length(grown[self.cache["grows_along"]])
        return None if any(_holds(bounds, sizes) for bounds in self.entry["ranges"]) else self.NOT_WON


_loaded: dict[str, ctypes.CDLL] = {}
"""Libraries by digest."""


def _library(artifact: bytes) -> ctypes.CDLL:
    """Loaded from a sealed copy in memory: what lies on disk may have changed since it was checked."""
    digest = hashlib.sha256(artifact).hexdigest()
    if digest not in _loaded:
        descriptor = os.memfd_create(digest[:16], os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        with open(descriptor, "wb") as file:
            file.write(artifact)
            file.flush()
            fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
            # The loader takes a path that it has seen for the library that came by it, and numbers of files are used
            # again, also by the runtime of another build: the digest is spelled in the path, as "/" and "/.".
            spelled = f"{int(digest[:32], 16):0128b}".replace("0", "/").replace("1", "/.")
            path = f"/proc/self/fd{spelled}/{descriptor}"
            try:
                _loaded[digest] = ctypes.CDLL(path)
            except OSError as error:
                raise OSError(str(error).replace(path, "it")) from None
    return _loaded[digest]


def _bind(library: ctypes.CDLL, name: str, pointers: int, sizes: int, result: Any = None) -> Any:
    function = library[name]
    function.argtypes = [ctypes.c_void_p] * pointers + [ctypes.c_int64] * sizes
    function.restype = result
    return function


def _type_of(spec: _Spec) -> torch.dtype:
    dtype: torch.dtype = getattr(torch, spec["element_type"])
    return dtype


def reserved_length(length: int) -> int:
    """Of the memory that keys and values of this length are moved to when they have none to grow into: geometric, so
    that growing copies each of them a bounded number of times."""
    return -(-(length + length // 2) // RESERVED_STEP) * RESERVED_STEP


def _sizes_and_strides(spec: _Spec, axes: dict[str, Any]) -> tuple[list[Any], tuple[Any, ...]]:
    sizes = [axes[dim] if isinstance(dim, str) else dim for dim in spec["shape"]]
    return sizes, _strides(sizes, spec["dim_order"])


def _strides(sizes: Sequence[Any], dim_order: Sequence[int]) -> tuple[Any, ...]:
    strides: list[Any] = [0] * len(sizes)
    step: Any = 1
    for dim in reversed(dim_order):
        strides[dim] = step
        step = step * sizes[dim]
    return tuple(strides)


def _difference(tensor: torch.Tensor, spec: _Spec, axes: dict[str, int]) -> str | None:
    """In what `tensor` differs from `spec`; adds the axis sizes that it shows to `axes`."""
    if (difference := _shape_difference(tensor.dtype, tensor.shape, spec, axes)) is not None:
        return difference
    sizes, strides = _sizes_and_strides(spec, axes)
    # The stride of a dim of size 1 is never used, and PyTorch leaves any number there.
    is_laid_out = all(size == 1 or got == want for size, got, want in zip(sizes, tensor.stride(), strides, strict=True))
    return None if is_laid_out else "strides"


def _shape_difference(dtype: torch.dtype, sizes: Sequence[int], spec: _Spec, axes: dict[str, int]) -> str | None:
    if dtype is not _type_of(spec):
        return "type"
    if len(sizes) != len(spec["shape"]):
        return "shape"
    for size, dim in zip(sizes, spec["shape"], strict=True):
        if size == 0 or size != (axes.setdefault(dim, size) if isinstance(dim, str) else dim):
            return "shape"
    return None


def _holds(bounds: Iterable[dict[str, Any]], sizes: dict[str, int]) -> bool:
    return all(bound["low"] <= math.prod(sizes[axis] for axis in bound["axes"]) <= bound["high"] for bound in bounds)


_LOOKS = ("shape", "allocated", "element_type", "dim_order")


def _model_of(spec: _Spec, activations: Sequence[_Spec]) -> int | None:
    looks = [[each.get(key) for key in _LOOKS] for each in (spec, *activations)]
    return looks.index(looks[0], 1) - 1 if looks[0] in looks[1:] else None


def _allocator(spec: _Spec, axes: dict[str, int], model: torch.Tensor | None) -> _Function:
    sizes, strides = _sizes_and_strides(spec, axes)
    dtype = _type_of(spec)
    if model is not None and model.stride() == strides:
        return torch.empty_like
    if list(spec["dim_order"]) == list(range(len(sizes))):
        return lambda _: torch.empty(sizes, dtype=dtype)
    return lambda _: torch.empty_strided(sizes, strides, dtype=dtype)


_BLOCK, _BLOCKS_AT_ONCE = 32, 4096


def can_be_kept(tensor: torch.Tensor, stored_as: str) -> bool:
    """Whether a kernel that keeps float32 `tensor` ([..., columns]) in this weight format has just its values.

    q4_1: in each block of 32 along the last dim there are a float16 scale and a float16 minimum that give every value
    bit for bit as scale * code + minimum, codes 0 to 15. q8_0: scale * code, codes -127 to 127. Any can be rounded to
    bfloat16.
    """
    if stored_as == "bfloat16":
        return True
    fits = {"q4_1": _fits_q4_1, "q8_0": _fits_q8_0}.get(stored_as)
    if fits is None or tensor.dim() < 1 or tensor.shape[-1] % _BLOCK:
        return False
    blocks = tensor.detach().reshape(-1, _BLOCK)
    # What does not fit mostly shows at once, and is what takes long.
    return all(fits(part) for part in (blocks[:1], *torch.split(blocks[1:], _BLOCKS_AT_ONCE)))


def _fits_q4_1(blocks: torch.Tensor) -> bool:
    for distance in range(15, 0, -1):  # between the codes of a block's largest and its smallest value
        for first in range(16 - distance):  # the code of the smallest
            low, high = torch.aminmax(blocks, dim=1, keepdim=True)
            scale = ((high - low) / distance).half().float()
            minimum = (low - scale * first).half().float()
            codes = ((blocks - minimum) / scale).round().clamp(0, 15).nan_to_num(0)
            blocks = blocks[(scale * codes + minimum != blocks).any(1)]
            if not len(blocks):
                return True
    return False


def _fits_q8_0(blocks: torch.Tensor) -> bool:
    for largest in range(127, 0, -1):
        scale = (blocks.abs().amax(1, keepdim=True) / largest).half().float()
        codes = (blocks / scale).round().clamp(-127, 127).nan_to_num(0)
        blocks = blocks[(scale * codes != blocks).any(1)]
        if not len(blocks):
            return True
    return False


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
            if (stored_as := spec.get("stored_as")) and not can_be_kept(tensor, stored_as):
                raise ValueError(f"parameter {spec['attribute']} has values that {stored_as} cannot hold")
        pointers = [tensor.data_ptr() for tensor in tensors]
        self.packed = self._kernel.prepare(pointers)
        self.pointers = (*pointers, *(() if self.packed is None else (self.packed.data_ptr(),)))
        self.requires_grad = any(tensor.requires_grad for tensor in tensors)
        # Only what was packed goes stale when a parameter is written in place; inference tensors do not tell.
        versions = [None if self.packed is None or tensor.is_inference() else tensor._version for tensor in tensors]
        places, names = zip(*self._places, strict=True) if self._places else ((), ())
        self._seen = list(zip(places, names, tensors, pointers, versions, strict=True))

    def are_fresh(self) -> bool:
        """Whether the kernel may be called; binds again first if a parameter was replaced, moved or written."""
        for place, name, tensor, pointer, version in self._seen:
            if (
                place[name] is not tensor
                or tensor.data_ptr() != pointer
                or (version is not None and tensor._version != version)
            ):
                try:
                    self.bind()
                except (ValueError, KeyError, AttributeError, RuntimeError):
                    return False
                return True
        return True


class _Reserved:
    """Memory that the keys and values of one layer of a cache grow into."""

    __slots__ = ("_dim", "_tensors", "capacity", "pointers")

    def __init__(
        self, held: tuple[torch.Tensor, torch.Tensor], dim: int, length: int, dim_order: Sequence[int]
    ) -> None:
        """With a copy of what is `held`, for `length` and more."""
        self._dim, self.capacity, tensors = dim, reserved_length(length), []
        for tensor in held:
            sizes = list(tensor.shape)
            sizes[dim] = self.capacity
            tensors.append(torch.empty_strided(sizes, _strides(sizes, dim_order), dtype=tensor.dtype))
            tensors[-1].narrow(dim, 0, tensor.shape[dim]).copy_(tensor)
        self._tensors = tensors
        self.pointers = [tensor.data_ptr() for tensor in tensors]

    def front(self, length: int) -> list[torch.Tensor]:
        """Keys and values of this length, which may be extended."""
        keys, values = views = [tensor.narrow(self._dim, 0, length) for tensor in self._tensors]
        number = id(keys)
        _extensible[number] = (weakref.ref(keys, lambda _: _extensible.pop(number, None)), weakref.ref(values), self)
        return views


_extensible: dict[int, tuple[weakref.ref[torch.Tensor], weakref.ref[torch.Tensor], _Reserved]] = {}
"""By the id of keys: those beyond whose end nobody has written yet, with their values and their memory."""


def _reserve(keys: torch.Tensor, values: torch.Tensor, dim: int, length: int, dim_order: Sequence[int]) -> _Reserved:
    """Where `keys` and `values` can grow to `length`: the memory that they are the front of, if nobody else extends
    them there, or else a copy."""
    found = _extensible.pop(id(keys), None)  # in one step: of two threads one gets it
    if found is not None:
        its_keys, its_values, reserved = found
        if its_keys() is keys and its_values() is values and length <= reserved.capacity:
            return reserved
    return _Reserved((keys, values), dim, length, dim_order)


_FORWARD = """
def make_forward(kernel, parameters, original, traced, bound, compare, share, draw, is_compiling, grad_enabled,
                 autocast_enabled, cache_layer, reserve):
    function, plans, plan_for, misses = kernel.function, kernel.plans, kernel.plan_for, kernel.misses
    not_won = kernel.NOT_WON
    are_fresh = parameters.are_fresh

    def forward(*arguments, **keywords):
        if is_compiling():
            return traced(arguments, keywords)
        {bind}
        try:
            key = ({key})
            plan = plans.get(key) or plan_for({tensors}, key)
            miss = plan.obstacle
            if miss is None:
                if grad_enabled() and (parameters.requires_grad{requires_grad}):
                    miss = "gradient"
                elif autocast_enabled("cpu"):
                    miss = "autocast"
                elif not are_fresh():
                    miss = "parameters"
        except (AttributeError, RuntimeError, TypeError):
            miss = "arguments"  # no plain tensors
        if miss is not None:
            misses[miss] += 1
            if miss is not_won:
                plan.calls += 1
            return original({passed_on})
        if share and draw() < share:
            return compare({compared})
        try:
            fixed, make = parameters.pointers, plan.outputs
            {make_outputs}
            {reserve}
            function({pointers}, {sizes})
        except Exception as error:
            kernel.fail(error)
            return original({passed_on})
        {extend}
        plan.calls += 1
        return {outputs}

    return forward
"""


_BIND_ORDERED = """
        if keywords:
            arguments, keywords = bound(arguments, keywords)
        if keywords or len(arguments) != {count}:
            misses["arguments"] += 1
            return original(*arguments, **keywords)
        {tensors} = arguments
"""
_BIND_NAMED = """
        given = bound(arguments, keywords)
        if given is None:
            misses["arguments"] += 1
            return original(*arguments, **keywords)
        {tensors} = given
"""
_BIND_CACHED = """
        given = bound(arguments, keywords)
        layer = None if given is None else cache_layer(given[-1])
        if layer is None:
            misses["arguments"] += 1
            return original(*arguments, **keywords)
        {others}, cache = given
        {states} = layer.keys, layer.values
"""


def _forward_source(kernel: _Kernel) -> str:
    """What replaces the original, written out for the kernel's arguments: it runs hundreds of times a token."""
    entry, models, call, cache = kernel.entry, kernel.models, kernel.call, kernel.cache
    roles = [spec["role"] for spec in entry["inputs"]]
    activations, parameters, outputs = itertools.count(), itertools.count(), range(len(models))
    pointers = [
        f"fixed[{next(parameters)}]" if role == "parameter" else f"t{next(activations)}.data_ptr()" for role in roles
    ]
    names = [f"t{n}" for n in range(next(activations))]
    tensors = f"[{', '.join(names)}]"
    reserve = extend = "pass"
    sizes = "*plan.axes"
    if cache is not None:
        bind = _BIND_CACHED.format(others=", ".join(names[:-2]), states=", ".join(names[-2:]))
        reserve = f"reserved = reserve({names[-2]}, {names[-1]})"
        length = f"{names[-2]}.shape[{cache['grows_along']}] + {cache['grows_by']}"
        extend = f"layer.keys, layer.values = reserved.front({length})"
        for n, name in enumerate(names[-2:]):
            pointers[pointers.index(f"{name}.data_ptr()")] = f"reserved.pointers[{n}]"
        known = (f"plan.axes[{n}]" for n in itertools.count())
        sizes = ", ".join("reserved.capacity" if axis == kernel.reserved else next(known) for axis in entry["axes"])
    else:
        bind = (_BIND_ORDERED if call is None else _BIND_NAMED).format(count=len(names), tensors=tensors)
    pointers += [f"o{n}.data_ptr()" for n in outputs] + ["fixed[-1]"] * (entry["prepare"] is not None)
    results = iter(f"o{n}" for n in outputs)
    returns = None if call is None else call["returns"]
    parts = list(results) if returns is None else [next(results) if is_output else "None" for is_output in returns]
    return _FORWARD.format(
        bind=bind.strip(),
        tensors=tensors,
        passed_on="*arguments" if call is None else "*arguments, **keywords",
        compared="arguments" if call is None else "arguments, keywords, given",
        reserve=reserve,
        extend=extend,
        sizes=sizes,
        key="".join(f"type({name}), {name}.dtype, {name}.is_cpu, {name}.shape, {name}.stride(), " for name in names),
        requires_grad="".join(f" or {name}.requires_grad" for name in names),
        make_outputs="; ".join(f"o{n} = make[{n}](t{models[n] or 0})" for n in outputs),
        pointers=", ".join(pointers),
        outputs=parts[0] if len(parts) == 1 and returns is None else f"({', '.join(parts)},)",
    )


_serial = itertools.count()
_sites: dict[int, "_Site"] = {}
"""Sites by the number that compiled graphs hold; kept after `uninstall`, since such a graph may still run."""


class _Site:
    """One place in a model where a kernel stands in for `original`."""

    def __init__(
        self,
        kernel: _Kernel,
        original: _Function,
        module: torch.nn.Module | None,
        shadow_one_in: int,
        cache_layer: int | None,
    ) -> None:
        """`cache_layer`: which of a cache's layers the module updates."""
        self.kernel = kernel
        self.original = original
        self._caches = None if kernel.cache is None else _Caches(kernel.cache, cache_layer)
        self.parameters = _Parameters(kernel, module)
        self.number = next(_serial)
        self._share = 1 / shadow_one_in if shadow_one_in else 0.0
        if kernel.call is None:
            self._names = _argument_names(original)[: len(kernel.activations)]
            self._bound: _Function = self._ordered
        else:
            self._bound = _NamedArguments(kernel.call, original, module)
        self._traced = self._make_traced()
        self.forward = self._make_forward(original)
        self.run = self._make_forward(self.run_original)
        """A call from a compiled graph."""
        _sites[self.number] = self

    def _make_forward(self, original: _Function) -> _Function:
        def make(share: float, compare: _Function | None) -> _Function:
            forward: _Function = self.kernel.make_forward(
                self.kernel, self.parameters, original, self._traced, self._bound, compare, share, _draw,
                torch.compiler.is_compiling, torch.is_grad_enabled, torch.is_autocast_enabled,
                None if self._caches is None else self._caches.layer_of, self._reserve,
            )  # fmt: skip
            return forward

        alone = make(0.0, None)
        compare = self._compare if self.kernel.call is None else self._compare_named
        return make(self._share, functools.partial(compare, alone, original)) if self._share else alone

    def _reserve(self, keys: torch.Tensor, values: torch.Tensor) -> _Reserved:
        cache, dim_order = self.kernel.cache, self.kernel.activations[-1]["dim_order"]
        assert cache is not None
        dim = cache["grows_along"]
        return _reserve(keys, values, dim, keys.shape[dim] + cache["grows_by"], dim_order)

    def _ordered(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call with keywords as positions, if they are just the arguments that are missing."""
        missing = self._names[len(arguments) :]
        if keywords.keys() != set(missing):
            return arguments, keywords
        return arguments + tuple([keywords[name] for name in missing]), {}

    def _compare(self, alone: _Function, original: _Function, tensors: tuple[torch.Tensor, ...]) -> Any:
        """One call by the kernel and by the original, which gets copies of the states."""
        states = [n for n, spec in enumerate(self.kernel.activations) if spec["role"] == "state"]
        copies = [tensor.clone() if n in states else tensor for n, tensor in enumerate(tensors)]

        def take_over() -> None:
            for n in states:
                tensors[n].copy_(copies[n])

        return self._told_apart(
            functools.partial(original, *copies),
            functools.partial(alone, *tensors),
            lambda: [(tensors[n], copies[n]) for n in states],
            take_over,
        )

    def _compare_named(
        self,
        alone: _Function,
        original: _Function,
        arguments: tuple[Any, ...],
        keywords: dict[str, Any],
        given: Sequence[Any],
    ) -> Any:
        """The same of a call by name; the original gets a cache of its own to extend."""
        by_kernel = functools.partial(alone, *arguments, **keywords)
        caches = self._caches
        if caches is None:
            return self._told_apart(functools.partial(original, *arguments, **keywords), by_kernel, list, lambda: None)
        cache = given[-1]
        held, twin = caches.layer_of(cache), caches.twin_of(cache)
        theirs = caches.layer_of(twin)

        def take_over() -> None:
            held.keys, held.values = theirs.keys, theirs.values

        by_original = functools.partial(
            original,
            *[twin if each is cache else each for each in arguments],
            **{name: twin if each is cache else each for name, each in keywords.items()},
        )
        return self._told_apart(
            by_original, by_kernel, lambda: [(held.keys, theirs.keys), (held.values, theirs.values)], take_over
        )

    def _told_apart(
        self,
        by_original: Callable[[], Any],
        by_kernel: Callable[[], Any],
        states: Callable[[], list[tuple[torch.Tensor, torch.Tensor]]],
        take_over: Callable[[], None],
    ) -> Any:
        """The kernel's results, unless they are shown wrong: then the original's, and `take_over` of its states.

        `states`: the kernel's and the original's, after both calls.
        """
        kernel = self.kernel
        try:
            expected = by_original()  # first: a kernel that spoils its inputs must not spoil this too
        except Exception as error:  # noqa: BLE001 (a comparison that fails must not fail the call)
            kernel.note_comparison("failed", f"{type(error).__name__}: {error}")
            return by_kernel()
        got = by_kernel()
        if kernel.switched_off is not None:
            return got
        try:
            pairs = [*zip(_results(got), _results(expected), strict=True), *states()]
            found = [_disagreement(mine, theirs, kernel.entry["error_bound"]) for mine, theirs in pairs]
        except Exception as error:  # noqa: BLE001 (as above)
            kernel.note_comparison("failed", f"{type(error).__name__}: {error}")
            return got
        faults = [fault for fault in found if fault is not None]
        if not faults:
            kernel.note_comparison("agreed", "")
            return got
        kernel.note_comparison("disagreed", "not finite" if "not finite" in faults else faults[0])
        take_over()
        return expected

    def _make_traced(self) -> _Function:
        """What torch.compile sees of a call: the op, where it can decide once for all shapes that the call may go
        there; the rest is decided at each call, in the op."""
        kernel, parameters, number, original, ordered = (
            self.kernel, self.parameters, self.number, self.original, self._bound
        )  # fmt: skip
        if kernel.call is not None:
            return lambda arguments, keywords: original(*arguments, **keywords)
        is_stateless = all(spec["role"] != "state" for spec in kernel.activations)
        specs = [(_type_of(spec), spec["shape"]) for spec in kernel.activations]
        operator = _operator(len(specs), len(kernel.models))
        # No global is named below: torch.compile would look for this file among the imported modules, by its name.
        grad_enabled, tensor_type = torch.is_grad_enabled, torch.Tensor

        def can_trace(tensors: tuple[Any, ...]) -> bool:
            if not is_stateless or len(tensors) != len(specs) or (grad_enabled() and parameters.requires_grad):
                return False
            for tensor, (dtype, sizes) in zip(tensors, specs, strict=True):
                if not isinstance(tensor, tensor_type) or tensor.dtype != dtype or tensor.device.type != "cpu":
                    return False
                if tensor.dim() != len(sizes) or (grad_enabled() and tensor.requires_grad):
                    return False
                if any(not isinstance(dim, str) and size != dim for size, dim in zip(tensor.shape, sizes, strict=True)):
                    return False
            return True

        def traced(arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
            if keywords:
                arguments, keywords = ordered(arguments, keywords)
            if keywords or not can_trace(arguments):
                return original(*arguments, **keywords)
            return operator(*arguments, number)

        return traced

    def run_original(self, *tensors: torch.Tensor) -> Any:
        """As a graph was told of the op's outputs: fresh ones, laid out as the kernel's."""
        inputs = {tensor.data_ptr() for tensor in tensors}
        outputs = []
        for output, spec in zip(_results(self.original(*tensors)), self.kernel.entry["outputs"], strict=True):
            strides, dtype = _strides(output.shape, spec["dim_order"]), _type_of(spec)
            is_as_told = output.stride() == strides and output.dtype is dtype
            if not is_as_told or output._is_view() or output.data_ptr() in inputs:
                output = torch.empty_strided(output.shape, strides, dtype=dtype).copy_(output)
            outputs.append(output)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def describe_outputs(self, *tensors: torch.Tensor) -> Any:
        """Blank outputs for these inputs, real or fake, sizes possibly symbolic."""
        axes: dict[str, Any] = dict(self.kernel.fixed_sizes)
        for tensor, spec in zip(tensors, self.kernel.activations, strict=True):
            axes |= {dim: n for n, dim in zip(tensor.shape, spec["shape"], strict=True) if isinstance(dim, str)}
        specs = self.kernel.entry["outputs"]
        blanks = [torch.empty_strided(*_sizes_and_strides(spec, axes), dtype=_type_of(spec)) for spec in specs]
        return blanks[0] if len(blanks) == 1 else tuple(blanks)


_draw = random.Random().random
"""Not the program's own generator, whose numbers must not depend on who draws beside it."""


def _results(result: Any) -> list[torch.Tensor]:
    return [result] if isinstance(result, torch.Tensor) else [part for part in result if part is not None]


def _disagreement(got: torch.Tensor, expected: torch.Tensor, bound: dict[str, float]) -> str | None:
    """What differs, if it is more than the kernel and the original may each err: see `ErrorBound` of the task."""
    if got.shape != expected.shape or got.dtype is not expected.dtype:
        return "shape or type"
    if not expected.is_floating_point():
        return None if torch.equal(got, expected) else "values"
    value, wanted = got.double(), expected.double()
    is_finite = torch.isfinite(wanted)
    if not bool(torch.isfinite(value)[is_finite].all()):
        return "not finite"
    if not torch.equal(value[~is_finite].nan_to_num(0.5), wanted[~is_finite].nan_to_num(0.5)):
        return "values"
    size = wanted.abs().where(is_finite, 0.0)
    scale = (size.amax(-1, keepdim=True) if size.dim() else size).clamp_min(torch.finfo(torch.float32).tiny)
    relative = torch.where(scale < bound["cancelled_below"], bound["cancelled_error"], bound["scaled_error"] * scale)
    each = bound["factor"] * relative + torch.finfo(got.dtype).eps * size.clamp_min(torch.finfo(got.dtype).tiny)
    return "values" if bool(((value - wanted).abs() > 2 * each)[is_finite].any()) else None


@functools.cache
def _operator(inputs: int, outputs: int) -> Any:
    """`run(inputs..., site) -> outputs`: all that a compiled graph sees of this runtime."""
    # A process may load the runtimes of two builds: each has an op of its own, named alike in every process.
    names = (f"run_{inputs}_{outputs}_{n}" for n in itertools.count())
    name = next(name for name in names if not hasattr(torch.ops.compiler_agent, name))
    takes = "".join(f"Tensor t{n}, " for n in range(inputs))
    gives = "Tensor" if outputs == 1 else f"({', '.join(['Tensor'] * outputs)})"
    library = torch.library.Library("compiler_agent", "FRAGMENT")  # type: ignore[no-untyped-call]
    library.define(f"{name}({takes}int site) -> {gives}")  # type: ignore[no-untyped-call]
    library.impl(name, lambda *each: _sites[each[-1]].run(*each[:-1]), "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(
        f"compiler_agent::{name}", lambda *each: _sites[each[-1]].describe_outputs(*each[:-1]), lib=library
    )
    _op_libraries.append(library)
    return getattr(torch.ops.compiler_agent, name).default


_op_libraries: list[torch.library.Library] = []
"""An op lives as long as its library object."""


def _argument_names(original: _Function) -> list[str]:
    """Names under which the positional arguments may be given."""
    try:
        parameters = inspect.signature(original).parameters.values()
    except ValueError:
        return []  # some functions written in C have no signature
    return [each.name for each in parameters if each.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]


class _NamedArguments:
    """Finds in a call's arguments what a kernel takes."""

    def __init__(self, call: dict[str, Any], original: _Function, module: torch.nn.Module | None) -> None:
        self._names = _argument_names(original)
        self._parts: dict[str, int] = {}
        """By name of an argument: how many tensors it brings, 0 where it is one itself."""
        cache = call["cache"]
        in_cache = () if cache is None else tuple(f"{cache['argument']}.{part}" for part in ("keys", "values"))
        for argument in call["tensors"]:
            if argument not in in_cache:
                name, _, is_part = argument.partition(".")
                self._parts[name] = self._parts.get(name, 0) + bool(is_part)
        if cache is not None:
            self._parts[cache["argument"]] = 0
        self._constants: dict[str, Any] = call["constants"]
        self._unused = frozenset(call["unused"])
        self._defaults = _defaults(original)
        inner = [] if module is None else [each for each in module.modules() if each is not module]
        # Who watches what goes on inside the module would see nothing of a call that a kernel serves.
        self._watched = [hooks for each in inner for hooks in (each._forward_hooks, each._forward_pre_hooks)]

    def __call__(self, arguments: tuple[Any, ...], keywords: dict[str, Any]) -> list[Any] | None:
        """The tensors in order, then the cache; None where the original code must serve the call."""
        given = dict(zip(self._names, arguments, strict=False))
        given.update(keywords)
        if len(given) != len(arguments) + len(keywords) or any(self._watched):
            return None
        taken: list[Any] = []
        for name, parts in self._parts.items():
            value = given.pop(name, None)
            if not parts:
                taken.append(value)
            elif isinstance(value, tuple | list) and len(value) == parts:
                taken += value
            else:
                return None
        for name, constant in self._constants.items():
            value = given.pop(name, None)
            if type(value) is not type(constant) or value != constant:
                return None
        for name, value in given.items():
            if value is None or name in self._unused:
                continue
            default = self._defaults.get(name)
            if default is None or type(value) is not type(default) or value != default:
                return None
        return taken


def _defaults(original: _Function) -> dict[str, Any]:
    """Numbers and words that arguments are where they are not given."""
    try:
        parameters = inspect.signature(original).parameters.values()
    except ValueError:
        return {}
    return {each.name: each.default for each in parameters if isinstance(each.default, bool | int | float | str)}


class _Caches:
    """The caches in which a module updates one layer."""

    def __init__(self, cache: dict[str, Any], layer: int | None) -> None:
        self._kinds = cache["kind"], cache["layer_kind"]
        self._settings = list(cache["settings"].items())
        assert layer is not None
        self._layer = layer
        self._known: dict[tuple[type, type], bool] = {}

    def layer_of(self, cache: Any) -> Any:
        """The layer that the module updates; None for another kind of cache."""
        try:
            layer = cache.layers[self._layer]
            kinds = type(cache), type(layer)
            is_known = self._known.get(kinds)
            if is_known is None:
                is_known = self._known[kinds] = tuple(f"{k.__module__}.{k.__qualname__}" for k in kinds) == self._kinds
            if not is_known:
                return None
            for name, setting in self._settings:
                value = getattr(cache, name)
                if type(value) is not type(setting) or value != setting:
                    return None
        except (AttributeError, IndexError, TypeError):
            return None
        return layer

    def twin_of(self, cache: Any) -> Any:
        """A cache that holds the same, and whose layer may be updated."""
        twin = copy.copy(cache)
        twin.layers = list(cache.layers)
        twin.layers[self._layer] = copy.copy(twin.layers[self._layer])
        return twin


_METRICS = {
    "build_installed": "Whether the build serves here (1), or was not made for this device or was switched off (0).",
    "prepared_bytes": "Memory that repacked parameters take beside the originals.",
    "kernel_hits_total": "Calls that the kernel served.",
    "kernel_misses_total": "Calls that the original code served at the kernel's sites, by reason.",
    "kernel_hit_shapes": "Distinct shapes among the hits.",
    "kernel_comparisons_total": "Served calls that were compared with the original, by outcome.",
    "kernel_errors_total": "Calls in which the kernel raised.",
    "kernel_switched_off": "Whether the kernel was switched off after errors or disagreements.",
}
"""What `Installation.prometheus` tells."""


class Installation:
    """The kernels of one build in one model."""

    def __init__(self, build_id: str) -> None:
        self.build_id = build_id
        self.obstacle: str | None = None
        """Why the build as a whole serves nothing: another device, or the kill switch."""
        self.failures: dict[str, str] = {}
        """Kernels that were not installed everywhere, by id, with the cause; the original code serves there."""
        self._kernels: list[_Kernel] = []
        self._sites: list[_Site] = []
        self._undo = contextlib.ExitStack()

    def counters(self) -> dict[str, dict[str, Any]]:
        """By kernel id: `op`, `hits`, `misses`, `miss_reasons` {reason: calls}, `missed_shapes` {shape:
        calls} of those that no kernel had won, `shapes` {shape: hits}, `shadow`
        {agreed, disagreed, failed: comparisons}, `errors` that it raised, and why it is `switched_off`, or None."""
        merged: dict[str, dict[str, Any]] = {}
        for kernel in self._kernels:
            counts = merged.setdefault(kernel.id, {"op": kernel.entry["op"], "errors": 0, "switched_off": None})
            hits, misses, missed = kernel.counts()
            shown = (("miss_reasons", misses), ("missed_shapes", missed), ("shapes", hits), ("shadow", kernel.shadow))
            for name, found in shown:
                before = counts.setdefault(name, {})
                before.update({key: before.get(key, 0) + count for key, count in found.items()})
            counts["hits"], counts["misses"] = sum(counts["shapes"].values()), sum(counts["miss_reasons"].values())
            counts["errors"] += kernel.errors
            counts["switched_off"] = counts["switched_off"] or kernel.switched_off
        return merged

    def write_counters(self, path: str | Path) -> None:
        """All that is known, as one JSON document that is there whole or not at all."""
        unfinished = Path(f"{path}.{os.getpid()}-{threading.get_ident()}.partial")
        document = {"build_id": self.build_id, "obstacle": self.obstacle, "failures": self.failures}
        unfinished.write_text(json.dumps(document | {"kernels": self.counters()}, indent=1) + "\n", encoding="utf-8")
        unfinished.replace(path)

    def prometheus(self) -> str:
        """The counters in Prometheus' text format 0.0.4; of shapes, which may be many, only how many there are."""
        samples: list[tuple[str, dict[str, str], int]] = [
            ("build_installed", {}, self.obstacle is None),
            ("prepared_bytes", {}, self.prepared_bytes),
        ]
        for kernel_id, counts in self.counters().items():
            kernel = {"kernel": kernel_id, "op": counts["op"]}
            samples.append(("kernel_hits_total", kernel, counts["hits"]))
            samples.append(("kernel_hit_shapes", kernel, len(counts["shapes"])))
            samples.append(("kernel_errors_total", kernel, counts["errors"]))
            samples.append(("kernel_switched_off", kernel, counts["switched_off"] is not None))
            reasons, outcomes = counts["miss_reasons"].items(), counts["shadow"].items()
            samples += [("kernel_misses_total", kernel | {"reason": reason}, count) for reason, count in reasons]
            samples += [("kernel_comparisons_total", kernel | {"outcome": name}, count) for name, count in outcomes]
        lines = []
        for metric, text in _METRICS.items():
            name = f"compiler_agent_{metric}"
            kind = "counter" if metric.endswith("_total") else "gauge"
            lines += [f"# HELP {name} {text}", f"# TYPE {name} {kind}"]
            for of_metric, labels, value in samples:
                if of_metric == metric:
                    lines.append(f"{name}{{{_label_pairs({'build': self.build_id} | labels)}}} {int(value)}")
        return "\n".join(lines) + "\n"

    @property
    def prepared_bytes(self) -> int:
        """Memory that repacked parameters take beside the originals."""
        packed = [site.parameters.packed for site in self._sites]
        return sum(tensor.numel() for tensor in packed if tensor is not None)

    def uninstall(self) -> None:
        """Puts the original code back; graphs compiled meanwhile call it too. Idempotent."""
        self._undo.close()
        for site in self._sites:
            site.run = site.run_original

    def add(self, model: torch.nn.Module, entry: dict[str, Any], artifact: bytes, shadow_one_in: int) -> None:
        """Puts one kernel at its places, or counts the calls that it does not serve there."""
        kernel, site = _Kernel(entry), entry["site"]
        self._kernels.append(kernel)
        reason = None if self.obstacle is None else "device"
        if reason is None:
            try:
                kernel.load(artifact)
            except Exception as error:  # noqa: BLE001 (whatever a build does, the model keeps its own code)
                reason = "not loaded"
                self.failures[kernel.id] = f"{entry['op']}: {entry['library']} cannot be loaded: {error}"
        for path in [None] if site["kind"] == "function" else site["module_paths"]:
            try:
                if reason is None:
                    self._serve(kernel, *_place_of(model, site, path), shadow_one_in, _cache_layer(site, path))
                else:
                    self._count(kernel, *_place_of(model, site, path), reason)
            except Exception as error:  # noqa: BLE001 (as above)
                self.failures[kernel.id] = f"{entry['op']}: {error}"
                with contextlib.suppress(AttributeError, ImportError):  # the model has no such place
                    self._count(kernel, *_place_of(model, site, path), "not fitting")

    def _serve(self, kernel: _Kernel, owner: Any, name: str, shadow_one_in: int, cache_layer: int | None) -> None:
        module, region = owner if isinstance(owner, torch.nn.Module) else None, kernel.entry["site"]["region"]
        regions = None if region is None else self._regions_of(owner, kernel.entry["site"])
        original = getattr(owner, name) if regions is None else regions[region]
        site = _Site(kernel, original, module, shadow_one_in, cache_layer)
        self._sites.append(site)
        if regions is None:
            self._replace(owner, name, site.forward)
        else:
            self._undo.callback(regions.__setitem__, region, site.original)
            regions[region] = site.forward

    def _count(self, kernel: _Kernel, owner: Any, name: str, reason: str) -> None:
        original, is_compiling = getattr(owner, name), torch.compiler.is_compiling

        @functools.wraps(original)
        def forward(*arguments: Any, **keywords: Any) -> Any:
            if not is_compiling():
                kernel.misses[reason] += 1
            return original(*arguments, **keywords)

        self._replace(owner, name, forward)

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


def _label_pairs(labels: dict[str, str]) -> str:
    escapes = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
    return ",".join(f'{name}="{text.translate(escapes)}"' for name, text in labels.items())


def _place_of(model: torch.nn.Module, site: dict[str, Any], path: str | None) -> tuple[Any, str]:
    """Whose attribute of which name the kernel, or for a region the rebuilt block, replaces."""
    if path is not None:
        return model.get_submodule(path), "forward"
    module_name, _, name = site["function"].rpartition(".")
    return importlib.import_module(module_name), name


def _cache_layer(site: dict[str, Any], path: str | None) -> int | None:
    """Which layer of a cache the module at `path` updates."""
    call = site.get("call")
    if call is None or call["cache"] is None:
        return None
    layer: int = call["cache"]["layers"][site["module_paths"].index(path)]
    return layer


def _define(source: str, name: str) -> _Function:
    """The function `name` of a source that came, verified, with the build, or of this file."""
    namespace: dict[str, Any] = {"torch": torch}
    exec(compile(source, f"<{name}>", "exec"), namespace)
    function: _Function = namespace[name]
    return function


def _is_set(name: str) -> bool:
    return os.environ.get(name, "0") not in ("", "0")


def install(
    model: torch.nn.Module,
    build_folder: str | Path,
    *,
    trusted_keys: str | Collection[str] | None = None,
    allow_unsigned: bool | None = None,
    shadow_one_in: int | None = None,
) -> Installation:
    """Puts the build's kernels at their sites in `model`; what is None is as the environment says.

    Raises BuildRefused, before anything is loaded, for a build that was changed or that nobody trusted has signed, and
    ValueError for a key that is none. On another device, with the kill switch on, or for a kernel that cannot be loaded
    or does not fit, the model keeps its own code: see `obstacle` and `failures`.
    """
    folder = Path(build_folder).resolve()  # `current` may move on while the files are read
    if _is_set(KILL_SWITCH):
        installation = Installation(folder.name)
        installation.obstacle = f"{KILL_SWITCH} is set"
        return installation
    keys = as_keys(os.environ.get(TRUSTED_KEYS, "") if trusted_keys is None else trusted_keys)
    if allow_unsigned is None:
        allow_unsigned = os.environ.get(ALLOW_UNSIGNED) == "1"  # no other word may open the door
    if shadow_one_in is None:
        shadow_one_in = int(os.environ.get(SHADOW_ONE_IN) or 0)
    if shadow_one_in < 0:
        raise ValueError(f"one call in {shadow_one_in} cannot be compared: 0 compares none ({SHADOW_ONE_IN})")
    build = read_verified(folder, keys, allow_unsigned=allow_unsigned)
    installation = Installation(build.manifest["build_id"])
    installation.obstacle = device_obstacle(build.manifest["device"])
    # A whole module that falls back must fall back to its block with regions served, so regions come first.
    for entry in sorted(build.manifest["kernels"], key=lambda entry: entry["site"]["kind"] != "region"):
        installation.add(model, entry, build.contents[entry["library"]], shadow_one_in)
    return installation
